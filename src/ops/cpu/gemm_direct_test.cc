// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_direct.h"

#include <limits>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/cpu/test_tiles.h"
#include "ops/test_matrices.h"

namespace sluice::cpu {
namespace {

// All that a kernel's sizes can do to a product: panels of k and their rest, blocks and their rests, more columns than
// are packed at once, columns that each thread packs for itself.
std::vector<DirectKernel> direct_kernels() {
  std::vector<DirectKernel> kernels;
  for (const std::int64_t panel_k : {32, 96, 1024}) {
    for (const std::int64_t max_own_rows : {0, 512}) {
      for (const std::int64_t block : {32, 64, 256}) {
        DirectKernel kernel = direct_kernel_on<EmulatedTiles>();
        kernel.panel_k = panel_k;
        kernel.max_own_rows = max_own_rows;
        kernel.block_rows = block;
        kernel.block_columns = block;
        kernel.own_columns = block;
        if (block == 64) kernel.max_packed_bytes = 1;
        kernels.push_back(kernel);
      }
    }
  }
  return kernels;
}

TEST(GemmDirect, LoadingAnOperandWhereItLiesGivesTheBitsOfPackingBoth) {
  if (!can_pack_tiles()) GTEST_SKIP() << "no AVX-512";
  Random random(12);
  for (const Extents extents :
       {Extents{75, 139, 230}, Extents{139, 75, 224}, Extents{64, 64, 128}, Extents{33, 7, 31}}) {
    for (const Transpose transpose_a : kTransposes) {
      for (const Transpose transpose_b : kTransposes) {
        const Operands operands = random_operands(DType::kBF16, extents, transpose_a, transpose_b, random);
        WorkerTeam one(1);
        const Matrix wanted(DType::kF32, extents.m, extents.n);
        gemm_blocked(one, gemm_of(operands, wanted), amx_kernel_on<EmulatedTiles>());
        for (const DirectKernel& kernel : direct_kernels()) {
          for (const std::size_t num_threads : {1U, 3U}) {
            WorkerTeam team(num_threads);
            const Matrix c(DType::kF32, extents.m, extents.n);
            run_on_tiles(team, gemm_of(operands, c), kernel);
            ASSERT_TRUE(c.same_bits(wanted))
                << fmt::format("m {} n {} k {} transposed {} {} panel_k {} block {} own {} threads {}", extents.m,
                               extents.n, extents.k, transpose_a == Transpose::kYes, transpose_b == Transpose::kYes,
                               kernel.panel_k, kernel.block_rows, kernel.max_own_rows, num_threads);
          }
        }
      }
    }
  }
}

// What lies beside an operand is not zero times anything.
TEST(GemmDirect, ReadsNothingBesideItsOperands) {
  if (!can_pack_tiles()) GTEST_SKIP() << "no AVX-512";
  Random random(13);
  const Extents extents{40, 70, 45};
  for (const Transpose transpose_a : kTransposes) {
    for (const Transpose transpose_b : kTransposes) {
      const Operands operands = random_operands(DType::kBF16, extents, transpose_a, transpose_b, random);
      const Reference reference = product(operands, extents);
      // Within a larger matrix of NaN: its rows follow each other without a gap, so that only the ends have neighbours.
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
      run_on_tiles(team, args, direct_kernel_on<EmulatedTiles>());
      for (std::size_t at = 0; at < reference.value.size(); ++at) {
        ASSERT_NEAR(c.get(static_cast<std::int64_t>(at)), reference.value[at], 1e-3);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::cpu
