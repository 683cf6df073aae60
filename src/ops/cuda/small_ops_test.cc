// SPDX-License-Identifier: Apache-2.0
// Operations whose bits on a card are the CPU's.
#include <cstdint>

#include "base/random.h"
#include "ops/cuda/parity.h"
#include "ops/dropout.h"
#include "ops/low_rank.h"
#include "ops/quantize.h"

namespace sluice::testing {
namespace {

using CudaDropout = CudaTest;
using CudaQuantize = CudaTest;
using CudaLowRank = CudaTest;

TEST_F(CudaDropout, LeavesOutWhatTheCpuLeavesOut) {
  for (const DType dtype : float_types()) {
    // The last begins beyond 2^32 elements.
    for (const std::int64_t first_row : {std::int64_t{0}, std::int64_t{5}, std::int64_t{1} << 33}) {
      const TestTensor in = random_tensor(dtype, {17, 301}, 1);
      const TestTensor out(dtype, {17, 301});
      expect_parity(
          [&](Stream& stream, const Place& at) {
            dropout(stream, {.in = at(in), .out = at(out), .rate = 0.3, .seed = 77, .first_row = first_row});
          },
          {&out}, kSameBits);
    }
  }
}

TestTensor random_bytes(DType dtype, std::int64_t count, std::uint64_t seed) {
  TestTensor tensor(dtype, {count});
  Random(seed).fill(tensor.view().bytes());
  return tensor;
}

TEST_F(CudaQuantize, Nf4BecomesTheCpusWeights) {
  for (const DType dtype : float_types()) {
    for (const std::int64_t count : {1, 63, 64, 1000, 64 * 256 + 17, 100000}) {
      SCOPED_TRACE(count);
      const Nf4Sizes sizes = nf4_sizes(count);
      const TestTensor codes = random_bytes(DType::kU8, sizes.num_code_bytes, 1);
      const TestTensor absmax_codes = random_bytes(DType::kU8, sizes.num_absmax_codes, 2);
      const TestTensor scales = random_tensor(DType::kF32, {sizes.num_absmax_scales}, 3);
      const TestTensor mean = random_tensor(DType::kF32, {1}, 4);
      const std::int64_t first = count > 128 ? 128 : 0;
      const TestTensor to(dtype, {count - first});
      expect_parity(
          [&](Stream& stream, const Place& at) {
            dequantize_nf4(stream, {.to = at(to),
                                    .from = {.codes = at(codes),
                                             .absmax_codes = at(absmax_codes),
                                             .absmax_scales = at(scales),
                                             .absmax_mean = at(mean)},
                                    .num_elements = count,
                                    .first_element = first});
          },
          {&to}, kSameBits);
    }
  }
}

TEST_F(CudaQuantize, Int8BecomesTheCpusWeights) {
  for (const DType dtype : float_types()) {
    TestTensor codes(DType::kI8, {33, 129});
    Random(5).fill(codes.view().bytes());
    const TestTensor absmax = random_tensor(DType::kF32, {33}, 6);
    const TestTensor to(dtype, {33, 129});
    expect_parity([&](Stream& stream,
                      const Place& at) { dequantize_int8(stream, at(to), {.codes = at(codes), .absmax = at(absmax)}); },
                  {&to}, kSameBits);
  }
}

TEST_F(CudaLowRank, BlocksSpreadAndComeBack) {
  for (const DType dtype : float_types()) {
    const TestTensor first = random_tensor(DType::kF32, {40, 8}, 1);
    const TestTensor second = random_tensor(DType::kF32, {7, 3}, 2);
    const TestTensor wide = random_tensor(dtype, {50, 19}, 3);
    const auto blocks = [&](const Place& at) {
      return std::vector<LowRankBlock>{{.matrix = at(first), .first_row = 1, .first_col = 0},
                                       {.matrix = at(second), .first_row = 42, .first_col = 15}};
    };
    expect_parity([&](Stream& stream, const Place& at) { spread_blocks(stream, at(wide), blocks(at), 0.7F); }, {&wide},
                  kSameBits);
    if (dtype == DType::kBF16) continue;
    expect_parity([&](Stream& stream, const Place& at) { add_from_blocks(stream, blocks(at), at(wide), 0.7F); },
                  {&first, &second}, {.f32 = 1e-7});
  }
}

}  // namespace
}  // namespace sluice::testing
