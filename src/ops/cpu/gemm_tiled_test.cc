// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_tiled.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/worker_team.h"
#include "ops/cpu/emulated_tiles.h"
#include "ops/cpu/gemm_tiled_plan.h"
#include "ops/test_matrices.h"

namespace sluice::cpu {
namespace {

// All that a kernel's sizes can do to a product: panels of k and their rest, for some rows at a time or for all, blocks
// and their rests, more columns than are packed at once, columns that each of several threads packs for itself, small
// blocks for many threads, columns that a few share, rows near and far, results that go past the caches.
std::vector<TiledKernel> tiled_kernels() {
  std::vector<TiledKernel> kernels;
  for (const std::int64_t panel_k : {32, 96, 1024}) {
    for (const std::int64_t min_block_rows : {0, 512}) {
      for (const std::int64_t block : {32, 64, 256}) {
        TiledKernel kernel = tiled_kernel_on<EmulatedTiles>();
        kernel.panel_k = panel_k;
        kernel.held_k = panel_k == 96 ? 224 : 0;
        kernel.near_k = 64;
        kernel.min_block_rows = min_block_rows;
        if (min_block_rows > 0) kernel.min_own_rows = block;
        if (min_block_rows > 0 || panel_k == 96) kernel.max_even_threads = 3;
        kernel.shared_block_rows = block == 32 ? 32 : 64;
        kernel.many_block = 64;
        kernel.min_many_block = 32;
        kernel.block_rows = block;
        kernel.block_columns = block;
        if (block == 64) kernel.max_packed_bytes = 1;
        if (block != 256) kernel.min_streamed_bytes = 0;
        kernels.push_back(kernel);
      }
    }
  }
  return kernels;
}

// Pairs from the first of k to the last, as tdpbf16ps sums them, and panel by panel.
Matrix summed_in_order(const Operands& operands, Extents extents, std::int64_t panel_k) {
  const bool a_is_km = operands.transpose_a == Transpose::kYes;
  const bool b_is_nk = operands.transpose_b == Transpose::kYes;
  Matrix sums(DType::kF32, extents.m, extents.n);
  for (std::int64_t m = 0; m < extents.m; ++m) {
    for (std::int64_t n = 0; n < extents.n; ++n) {
      const auto term = [&](std::int64_t k) {
        if (k >= extents.k) return 0.0F;
        return static_cast<float>(operands.a.get(a_is_km ? k * extents.m + m : m * extents.k + k)) *
               static_cast<float>(operands.b.get(b_is_nk ? n * extents.k + k : k * extents.n + n));
      };
      float total = 0;
      for (std::int64_t panel = 0; panel < extents.k; panel += panel_k) {
        float sum = 0;
        for (std::int64_t k = panel; k < std::min(panel + panel_k, extents.k); k += 2) sum += term(k) + term(k + 1);
        total = panel == 0 ? sum : total + sum;
      }
      sums.set(m * extents.n + n, total);
    }
  }
  return sums;
}

// What a product does with its sums: it replaces what was there or adds to it, in either type, with a bias or without.
struct Result {
  DType dtype;
  Into into;
  bool has_bias;
};

Matrix finished(const Matrix& sums, const Matrix& before, const Matrix& bias, Extents extents, Result result) {
  Matrix c(result.dtype, extents.m, extents.n);
  for (std::int64_t at = 0; at < extents.m * extents.n; ++at) {
    auto sum = static_cast<float>(sums.get(at));
    if (result.has_bias) sum += static_cast<float>(bias.get(at % extents.n));
    if (result.into == Into::kAdd) sum += static_cast<float>(before.get(at));
    c.set(at, sum);
  }
  return c;
}

TEST(GemmTiled, SumsFromTheFirstOfKToTheLastWhateverTheBlocks) {
  if (!has_path(GemmPath::kAvx512)) GTEST_SKIP() << "packing needs AVX-512";
  Random random(12);
  for (const Extents extents :
       {Extents{75, 139, 230}, Extents{139, 75, 224}, Extents{64, 96, 128}, Extents{33, 7, 31}}) {
    for (const Transpose transpose_a : kTransposes) {
      for (const Transpose transpose_b : kTransposes) {
        const Operands operands = random_operands(DType::kBF16, extents, transpose_a, transpose_b, random);
        std::map<std::int64_t, Matrix> sums_by_panel;
        for (const TiledKernel& kernel : tiled_kernels()) {
          Matrix& sums = sums_by_panel[kernel.panel_k];
          if (sums.view().bytes().empty()) sums = summed_in_order(operands, extents, kernel.panel_k);
          for (const Result result :
               {Result{DType::kF32, Into::kOverwrite, false}, Result{DType::kBF16, Into::kOverwrite, false},
                Result{DType::kF32, Into::kAdd, false}, Result{DType::kBF16, Into::kAdd, true}}) {
            const std::size_t num_threads = result.has_bias || kernel.block_rows == 64 ? 1 : 3;
            WorkerTeam team(num_threads);
            const Matrix before = Matrix::random(result.dtype, extents.m, extents.n, random);
            const Matrix c = before;
            Gemm args = gemm_of(operands, c, result.into);
            if (result.has_bias) args.bias = operands.bias.vector_view();
            gemm_tiled(team, args, kernel);
            ASSERT_TRUE(c.same_bits(finished(sums, before, operands.bias, extents, result))) << fmt::format(
                "m {} n {} k {} transposed {} {} panel_k {} block {} at least {} threads {} narrow {} added {} bias {}",
                extents.m, extents.n, extents.k, transpose_a == Transpose::kYes, transpose_b == Transpose::kYes,
                kernel.panel_k, kernel.block_rows, kernel.min_block_rows, num_threads, result.dtype == DType::kBF16,
                result.into == Into::kAdd, result.has_bias);
          }
        }
      }
    }
  }
}

struct PlannedCase {
  std::int64_t m, n, k;
  std::size_t num_threads;
};

TiledPlan planned(const PlannedCase& c, const TiledKernel& kernel) {
  const Matrix a(DType::kBF16, c.m, c.k);
  const Matrix b(DType::kBF16, c.n, c.k);
  const Matrix out(DType::kBF16, c.m, c.n);
  return plan_tiled(kernel, {.a = a.view(), .b = b.view(), .c = out.view(), .transpose_b = Transpose::kYes},
                    c.num_threads);
}

// 600 columns are not 512 for one thread and 88 for the other.
TEST(GemmTiledPlan, GivesThreadsAboutAsMuch) {
  for (const PlannedCase& c :
       {PlannedCase{600, 2048, 32, 2}, PlannedCase{600, 4096, 32, 2}, PlannedCase{700, 700, 32, 2},
        PlannedCase{1000, 1500, 32, 4}, PlannedCase{520, 14336, 32, 3}}) {
    const TiledPlan plan = planned(c, {});
    std::int64_t largest = 0;
    std::int64_t total = 0;
    for (std::int64_t row = 0; row < plan.num_rows; row += plan.block_rows) {
      for (std::int64_t column = 0; column < plan.num_columns; column += plan.block_columns) {
        const std::int64_t size =
            std::min(plan.block_rows, plan.num_rows - row) * std::min(plan.block_columns, plan.num_columns - column);
        largest = std::max(largest, size);
        total += size;
      }
    }
    EXPECT_LE(largest * static_cast<std::int64_t>(c.num_threads), total * 5 / 4) << fmt::format(
        "m {} n {} threads {}: blocks of {} x {}", c.m, c.n, c.num_threads, plan.block_rows, plan.block_columns);
  }
}

TEST(GemmTiledPlan, GivesManyThreadsBlocksToTakeFromSlowOnes) {
  const TiledKernel kernel;
  for (const PlannedCase& c :
       {PlannedCase{4096, 4096, 4096, 8}, PlannedCase{512, 4096, 4096, 8}, PlannedCase{512, 4096, 14336, 16}}) {
    const TiledPlan plan = planned(c, kernel);
    EXPECT_EQ(plan.packed_for, PackedFor::kAll);
    const std::int64_t num_blocks = (plan.num_rows + plan.block_rows - 1) / plan.block_rows *
                                    ((plan.column_stretch + plan.block_columns - 1) / plan.block_columns);
    EXPECT_GE(num_blocks, 4 * static_cast<std::int64_t>(c.num_threads));
  }
}

TEST(GemmTiledPlan, SharesAShortKAmongAFewThreads) {
  const TiledPlan plan = planned({1024, 1024, 1024, 2}, {});
  EXPECT_TRUE(plan.packs_own_share);
  EXPECT_EQ(plan.block_columns, 512);
  EXPECT_EQ(plan.share_rows * plan.block_rows, 1024) << "a share is all rows of its columns";
  EXPECT_EQ(plan.packed_columns_bytes, 2U << 20);
  for (const PlannedCase& c : {PlannedCase{1024, 1024, 1056, 2}, PlannedCase{1024, 1024, 1024, 1},
                               PlannedCase{1024, 1024, 1024, 3}, PlannedCase{2048, 2048, 1024, 2}}) {
    EXPECT_FALSE(planned(c, {}).packs_own_share) << c.m << " x " << c.k << ", threads " << c.num_threads;
  }
}

TEST(GemmTiledPlan, KeepsSumsOfAllThreadsInTheirBounds) {
  const TiledKernel kernel;
  for (const std::size_t num_threads : {1U, 2U, 7U, 16U, 64U}) {
    for (const std::int64_t m : {600, 768, 4096}) {
      const TiledPlan plan = planned({m, 4096, 4096, num_threads}, kernel);
      const auto least = static_cast<std::uint64_t>(kernel.min_block_rows * plan.block_columns) * sizeof(float);
      EXPECT_GT(plan.sums_bytes, 0U);
      EXPECT_LE(plan.sums_bytes, std::max(static_cast<std::uint64_t>(kernel.max_sums_bytes) / num_threads, least));
    }
  }
  EXPECT_EQ(planned({4096, 4096, kernel.panel_k, 2}, kernel).sums_bytes, 0U) << "of one panel none are kept";
  const TiledPlan by_rows = planned({4096, 4096, kernel.held_k, 2}, kernel);
  EXPECT_EQ(by_rows.sums_bytes, static_cast<std::uint64_t>(32 * by_rows.block_columns) * sizeof(float));
}

// What lies beside an operand is not zero times anything.
TEST(GemmTiled, ReadsNothingBesideItsOperands) {
  if (!has_path(GemmPath::kAvx512)) GTEST_SKIP() << "packing needs AVX-512";
  Random random(13);
  // Whole tiles whose last step is short, and the other way round.
  for (const Extents extents : {Extents{64, 96, 45}, Extents{40, 70, 64}}) {
    for (const auto& [transpose_a, transpose_b] :
         {std::pair(Transpose::kNo, Transpose::kNo), std::pair(Transpose::kNo, Transpose::kYes),
          std::pair(Transpose::kYes, Transpose::kNo), std::pair(Transpose::kYes, Transpose::kYes)}) {
      const Operands operands = random_operands(DType::kBF16, extents, transpose_a, transpose_b, random);
      const Reference reference = product(operands, extents);
      const auto surround = [](const Matrix& inner) {
        const std::int64_t size = inner.view().shape().num_elements();
        Matrix outer(DType::kBF16, 1, size + 128);
        for (std::int64_t at = 0; at < size + 128; ++at) outer.set(at, std::numeric_limits<float>::quiet_NaN());
        for (std::int64_t at = 0; at < size; ++at) outer.set(64 + at, static_cast<float>(inner.get(at)));
        return outer;
      };
      const Matrix a = surround(operands.a);
      const Matrix b = surround(operands.b);
      const auto inside = [](const Matrix& outer, const Matrix& inner) {
        const std::span<std::byte> bytes = outer.view().bytes();
        return TensorView(bytes.subspan(128, inner.view().bytes().size()), DType::kBF16, inner.view().shape());
      };
      const Matrix c(DType::kF32, extents.m, extents.n);
      Gemm args = gemm_of(operands, c);
      args.a = inside(a, operands.a);
      args.b = inside(b, operands.b);
      WorkerTeam team(2);
      gemm_tiled(team, args, tiled_kernel_on<EmulatedTiles>());
      for (std::size_t at = 0; at < reference.value.size(); ++at) {
        ASSERT_NEAR(c.get(static_cast<std::int64_t>(at)), reference.value[at], 1e-3);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::cpu
