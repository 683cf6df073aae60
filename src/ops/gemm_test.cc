// SPDX-License-Identifier: Apache-2.0
#include "ops/gemm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/bf16.h"
#include "base/random.h"
#include "device/cpu/cpu_device.h"
#include "ops/cpu/emulated_tiles.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/gemm_blocked.h"
#include "ops/cpu/gemm_tiled.h"
#include "ops/cpu/gemm_vector.h"
#include "ops/test_matrices.h"

namespace sluice {
namespace {

// A way to run a product: each path that this CPU has, and tiles that are emulated.
struct Way {
  std::string name;
  std::function<void(WorkerTeam&, const Gemm&)> run;
};

std::vector<Way> ways(DType dtype) {
  std::vector<Way> found;
  for (const GemmPath path : gemm_paths_available()) {
    if (!gemm_path_takes(path, dtype)) continue;
    found.push_back(
        {std::string(name(path)), [path](WorkerTeam& team, const Gemm& args) { cpu::gemm(team, args, path); }});
  }
  if (dtype == DType::kBF16 && has_path(GemmPath::kAvx512)) {
    found.push_back({"emulated tiles", [](WorkerTeam& team, const Gemm& args) {
                       if (args.c.bytes().empty()) return;
                       cpu::gemm_tiled(team, args, cpu::tiled_kernel_on<cpu::EmulatedTiles>());
                     }});
  }
  return found;
}

void expect_right(const Way& way, const Operands& operands, const Reference& reference, Extents extents) {
  WorkerTeam team(2);
  Random random(7);
  for (const DType c_dtype : kDTypes) {
    for (const Into into : {Into::kOverwrite, Into::kAdd}) {
      for (const bool with_bias : {false, true}) {
        const Matrix c = Matrix::random(c_dtype, extents.m, extents.n, random);
        const Matrix before = c;
        Gemm args = gemm_of(operands, c, into);
        if (with_bias) args.bias = operands.bias.vector_view();
        way.run(team, args);
        for (std::int64_t at = 0; at < extents.m * extents.n; ++at) {
          double wanted = reference.value[static_cast<std::size_t>(at)];
          if (with_bias) wanted += operands.bias.get(at % extents.n);
          if (into == Into::kAdd) wanted += before.get(at);
          const double sums = (reference.magnitude[static_cast<std::size_t>(at)] + 2) * 0x1p-20;
          const double rounding = c_dtype == DType::kBF16 ? std::abs(wanted) * 0x1p-8 : 0;
          ASSERT_NEAR(c.get(at), wanted, sums + rounding) << fmt::format(
              "{} m {} n {} k {} transposed {} {} a {} c {} add {} bias {} at ({}, {})", way.name, extents.m, extents.n,
              extents.k, operands.transpose_a == Transpose::kYes, operands.transpose_b == Transpose::kYes,
              name(args.a.dtype()), name(c_dtype), into == Into::kAdd, with_bias, at / extents.n, at % extents.n);
        }
      }
    }
  }
}

TEST(Gemm, AgreesWithATripleLoopInDoublePrecision) {
  const Extents shapes[] = {{1, 1, 1},     {1, 17, 5},   {2, 33, 64},    {3, 40, 129},  {5, 7, 300},
                            {16, 16, 32},  {17, 31, 33}, {32, 32, 31},   {33, 65, 1},   {48, 96, 257},
                            {64, 19, 513}, {9, 300, 70}, {300, 9, 70},   {70, 70, 70},  {130, 50, 66},
                            {1, 200, 515}, {31, 1, 90},  {40, 33, 2080}, {35, 70, 1100}};
  Random random(1);
  for (const Extents extents : shapes) {
    for (const DType dtype : kDTypes) {
      for (const Transpose transpose_a : kTransposes) {
        for (const Transpose transpose_b : kTransposes) {
          const Operands operands = random_operands(dtype, extents, transpose_a, transpose_b, random);
          const Reference reference = product(operands, extents);
          for (const Way& way : ways(dtype)) {
            expect_right(way, operands, reference, extents);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(Gemm, GivesTheSameBitsWithAnyNumberOfThreads) {
  Random random(2);
  for (const Extents extents : {Extents{130, 530, 520}, Extents{2, 900, 600}, Extents{70, 1100, 40}}) {
    for (const DType dtype : kDTypes) {
      for (const Transpose transpose_a : kTransposes) {
        for (const Transpose transpose_b : kTransposes) {
          const Operands operands = random_operands(dtype, extents, transpose_a, transpose_b, random);
          for (const Way& way : ways(dtype)) {
            const Matrix alone(DType::kF32, extents.m, extents.n);
            WorkerTeam one(1);
            way.run(one, gemm_of(operands, alone));
            for (const std::size_t num_threads : {2U, 3U, 7U}) {
              const Matrix shared(DType::kF32, extents.m, extents.n);
              WorkerTeam team(num_threads);
              way.run(team, gemm_of(operands, shared));
              ASSERT_TRUE(shared.same_bits(alone)) << way.name << " with " << num_threads;
            }
          }
        }
      }
    }
  }
}

TEST(Gemm, GivesTheSameBitsWhateverTheBlocksOfC) {
  Random random(9);
  const Extents extents{75, 139, 530};
  const cpu::GemmKernel kernel = cpu::baseline_kernel(DType::kBF16);
  for (const Transpose transpose_a : kTransposes) {
    for (const Transpose transpose_b : kTransposes) {
      const Operands operands = random_operands(DType::kBF16, extents, transpose_a, transpose_b, random);
      WorkerTeam team(2);
      const Matrix wanted(DType::kF32, extents.m, extents.n);
      cpu::gemm_blocked(team, gemm_of(operands, wanted), kernel);
      for (const std::int64_t max_rows : {1, 40, 70}) {
        cpu::GemmKernel small = kernel;
        small.max_local = max_rows;
        small.max_shared = max_rows;
        small.stretch_bytes = 1;
        const Matrix c(DType::kF32, extents.m, extents.n);
        cpu::gemm_blocked(team, gemm_of(operands, c), small);
        EXPECT_TRUE(c.same_bits(wanted)) << max_rows;
      }
    }
  }
}

TEST(Gemm, SumsOverALongKInEitherType) {
  Random random(10);
  const Extents extents{10, 20, 40000};
  const Operands operands = random_operands(DType::kBF16, extents, Transpose::kYes, Transpose::kNo, random);
  const Reference reference = product(operands, extents);
  for (const Way& way : ways(DType::kBF16)) expect_right(way, operands, reference, extents);
}

TEST(Gemm, RepeatedOnOneTeamLeavesNothingOfTheLastProductBehind) {
  Random random(3);
  WorkerTeam team(3);
  for (const DType dtype : kDTypes) {
    for (const Way& way : ways(dtype)) {
      const Extents large{100, 200, 300};
      const Extents small{37, 41, 43};
      const Operands of_small = random_operands(dtype, small, Transpose::kNo, Transpose::kYes, random);
      const Operands of_large = random_operands(dtype, large, Transpose::kYes, Transpose::kNo, random);
      const Matrix first(DType::kF32, small.m, small.n);
      way.run(team, gemm_of(of_small, first));
      const Matrix between(DType::kF32, large.m, large.n);
      way.run(team, gemm_of(of_large, between));
      const Matrix second(DType::kF32, small.m, small.n);
      way.run(team, gemm_of(of_small, second));
      EXPECT_TRUE(first.same_bits(second)) << way.name;
    }
  }
}

TEST(Gemm, NanAndInfinityStayInTheirRowsAndColumns) {
  Random random(4);
  for (const Extents extents : {Extents{40, 50, 70}, Extents{3, 50, 70}}) {
    for (const DType dtype : kDTypes) {
      for (const DType c_dtype : kDTypes) {
        for (const Way& way : ways(dtype)) {
          const Operands operands = random_operands(dtype, extents, Transpose::kNo, Transpose::kYes, random);
          operands.a.set(1 * extents.k + 69, std::numeric_limits<float>::quiet_NaN());
          operands.b.set(0 * extents.k + 5, 1.0F);
          operands.a.set(2 * extents.k + 5, std::numeric_limits<float>::infinity());
          operands.b.set(7 * extents.k + 0, std::numeric_limits<float>::quiet_NaN());
          const Matrix c(c_dtype, extents.m, extents.n);
          WorkerTeam team(2);
          way.run(team, gemm_of(operands, c));
          for (std::int64_t m = 0; m < extents.m; ++m) {
            for (std::int64_t n = 0; n < extents.n; ++n) {
              const double value = c.get(m * extents.n + n);
              if (m == 1 || n == 7) {
                ASSERT_TRUE(std::isnan(value)) << way.name << m << ", " << n;
              } else if (m == 2) {
                ASSERT_TRUE(std::isinf(value) || operands.b.get(n * extents.k + 5) == 0) << way.name << n;
              } else {
                ASSERT_TRUE(std::isfinite(value)) << way.name << m << ", " << n;
              }
            }
          }
          EXPECT_EQ(c.get(2 * extents.n), std::numeric_limits<double>::infinity());
        }
      }
    }
  }
}

TEST(Gemm, RoundsSumsAsToBf16Does) {
  Random random(11);
  for (const std::int64_t m : {5, 70}) {
    const std::int64_t n = 45;
    const Operands operands = random_operands(DType::kF32, {m, n, 1}, Transpose::kNo, Transpose::kYes, random);
    for (std::int64_t at = 0; at < m; ++at) {
      // Ties to either side and their neighbours, in any binade, of either sign; then what is special.
      const auto bits = static_cast<std::uint32_t>(random.next() & 0xFFFF0000U);
      operands.a.set(at, std::bit_cast<float>(bits + 0x7FFFU + static_cast<std::uint32_t>(at % 3)));
    }
    operands.a.set(0, std::numeric_limits<float>::max());
    operands.a.set(1, -std::numeric_limits<float>::infinity());
    operands.a.set(2, std::numeric_limits<float>::quiet_NaN());
    operands.a.set(3, std::numeric_limits<float>::denorm_min() * 0x18000);
    for (std::int64_t at = 0; at < n; ++at) operands.b.set(at, 1);
    for (const Way& way : ways(DType::kF32)) {
      WorkerTeam team(1);
      const Matrix c(DType::kBF16, m, n);
      way.run(team, gemm_of(operands, c));
      for (std::int64_t at = 0; at < m * n; ++at) {
        const float sum = static_cast<float>(operands.a.get(at / n)) + 0.0F;
        EXPECT_EQ(c.view().as<BF16>()[static_cast<std::size_t>(at)].bits, to_bf16(sum).bits) << way.name << " " << sum;
      }
    }
  }
}

// Results of some MiB are written past the caches, row by row of tiles or transposed.
TEST(Gemm, LargeResultsAreThoseOfF32Rounded) {
  Random random(15);
  for (const Extents extents : {Extents{1056, 2048, 64}, Extents{2080, 1024, 64}, Extents{1056, 2048, 1100}}) {
    if (extents.k > 64 && !has_path(GemmPath::kAmxBf16)) continue;  // slow elsewhere
    const Operands operands = random_operands(DType::kBF16, extents, Transpose::kNo, Transpose::kYes, random);
    WorkerTeam team(2);
    const Matrix narrow(DType::kBF16, extents.m, extents.n);
    const Matrix wide(DType::kF32, extents.m, extents.n);
    const GemmPath path = gemm_paths_available().back();
    cpu::gemm(team, gemm_of(operands, narrow), path);
    cpu::gemm(team, gemm_of(operands, wide), path);
    const std::span<const BF16> rounded = narrow.view().as<BF16>();
    const std::span<const float> sums = wide.view().as<float>();
    std::int64_t num_wrong = 0;
    for (std::size_t at = 0; at < sums.size(); ++at) num_wrong += rounded[at].bits != to_bf16(sums[at]).bits ? 1 : 0;
    EXPECT_EQ(num_wrong, 0) << extents.m << " " << extents.n << " " << extents.k;
  }
}

// Products of tiles are so small here that their sums are too, which to_bf16() would keep and AMX makes zeros. Those of
// several panels are added up by other instructions.
TEST(Gemm, SumsOfTilesAreNormalNumbersOrZero) {
  if (!has_path(GemmPath::kAmxBf16)) GTEST_SKIP() << "this CPU has no AMX";
  for (const Extents extents : {Extents{64, 96, 64}, Extents{96, 64, 1600}}) {
    Random random(14);
    const Operands operands = random_operands(DType::kBF16, extents, Transpose::kNo, Transpose::kYes, random);
    for (std::int64_t at = 0; at < extents.m * extents.k; ++at) {
      operands.a.set(at, std::ldexp(static_cast<float>(operands.a.get(at)), -100));
    }
    for (std::int64_t at = 0; at < extents.n * extents.k; ++at) {
      operands.b.set(at, std::ldexp(static_cast<float>(operands.b.get(at)), -25));
    }
    WorkerTeam team(1);
    const Matrix narrow(DType::kBF16, extents.m, extents.n);
    const Matrix wide(DType::kF32, extents.m, extents.n);
    cpu::gemm(team, gemm_of(operands, narrow), GemmPath::kAmxBf16);
    cpu::gemm(team, gemm_of(operands, wide), GemmPath::kAmxBf16);
    int num_normal = 0;
    for (std::size_t at = 0; at < static_cast<std::size_t>(extents.m * extents.n); ++at) {
      const float sum = wide.view().as<float>()[at];
      EXPECT_TRUE(sum == 0 || std::isnormal(sum)) << sum;
      EXPECT_EQ(narrow.view().as<BF16>()[at].bits, to_bf16(sum).bits) << sum;
      if (sum != 0) ++num_normal;
    }
    EXPECT_GT(num_normal, 0);
    EXPECT_LT(num_normal, extents.m * extents.n);
  }
  volatile float least = std::numeric_limits<float>::min();
  EXPECT_GT(least / 2, 0) << "what is below normal numbers is zero only where tiles are multiplied";
}

TEST(Gemm, WithoutKTheProductIsZeroAndTheBiasStays) {
  for (const DType dtype : kDTypes) {
    for (const Way& way : ways(dtype)) {
      for (const std::int64_t m : {3, 40}) {
        WorkerTeam team(2);
        Random random(5);
        const Operands operands = random_operands(dtype, {m, 5, 0}, Transpose::kNo, Transpose::kYes, random);
        const Matrix c = Matrix::random(DType::kF32, m, 5, random);
        const Matrix before = c;
        way.run(team, gemm_of(operands, c, Into::kAdd));
        EXPECT_TRUE(c.same_bits(before)) << way.name;
        Gemm args = gemm_of(operands, c);
        args.bias = operands.bias.vector_view();
        way.run(team, args);
        for (std::int64_t at = 0; at < m * 5; ++at) EXPECT_EQ(c.get(at), operands.bias.get(at % 5)) << way.name;
      }
    }
  }
}

TEST(Gemm, WithoutRowsOrColumnsNothingHappens) {
  for (const DType dtype : kDTypes) {
    for (const Way& way : ways(dtype)) {
      for (const Extents extents : {Extents{0, 5, 7}, Extents{5, 0, 7}, Extents{0, 0, 0}}) {
        WorkerTeam team(2);
        Random random(6);
        const Operands operands = random_operands(dtype, extents, Transpose::kNo, Transpose::kYes, random);
        const Matrix c(DType::kF32, extents.m, extents.n);
        way.run(team, gemm_of(operands, c));
      }
    }
  }
}

TEST(Gemm, RunsOnAStream) {
  CpuDevice device(1 << 20, 2);
  const auto stream = device.make_stream("test");
  Random random(8);
  const Extents extents{20, 30, 40};
  const Operands operands = random_operands(DType::kBF16, extents, Transpose::kNo, Transpose::kYes, random);
  const Reference reference = product(operands, extents);
  const Matrix c(DType::kF32, extents.m, extents.n);
  gemm(*stream, gemm_of(operands, c));
  stream->synchronize();
  for (std::size_t at = 0; at < reference.value.size(); ++at) {
    ASSERT_NEAR(c.get(static_cast<std::int64_t>(at)), reference.value[at], 1e-4);
  }
}

TEST(GemmDeathTest, RefusesMatricesThatDoNotFitTogether) {
  CpuDevice device(1 << 20, 1);
  const auto stream = device.make_stream("test");
  const Matrix a(DType::kF32, 2, 3);
  const Matrix c(DType::kF32, 2, 2);
  EXPECT_DEATH(gemm(*stream, {.a = a.view(), .b = a.view(), .c = c.view(), .bias = {}}), "agree on k");
  EXPECT_DEATH(gemm(*stream, {.a = a.view(), .b = a.view(), .c = a.view(), .bias = {}, .transpose_b = Transpose::kYes}),
               "c is \\(m, n\\)");
}

}  // namespace
}  // namespace sluice
