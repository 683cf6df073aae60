// SPDX-License-Identifier: Apache-2.0
// What adapters need besides matrix products: blocks in a wide matrix, and dropout.
#include "ops/low_rank.h"

#include <vector>

#include <gtest/gtest.h>

#include "ops/cpu/test_targets.h"
#include "ops/dropout.h"
#include "ops/test_tensors.h"

namespace sluice {
namespace {

using testing::Doubles;
using testing::random_tensor;
using testing::TestTensor;

TEST(LowRank, BlocksStandInTheirRowsAndColumnsWithZerosAroundThem) {
  CpuDevice device(Device::kAlignment, 2);
  const auto stream = device.make_stream("test");
  const TestTensor first = random_tensor(DType::kF32, {70, 3}, 1);
  const TestTensor second = random_tensor(DType::kF32, {50, 3}, 2);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TestTensor wide = random_tensor(dtype, {200, 6}, 3);
    spread_blocks(*stream, wide, {{first, 0, 0}, {second, 130, 3}}, 0.5F);
    stream->synchronize();
    Doubles expected(200 * 6, 0);
    const auto put = [&](const TestTensor& block, std::size_t rows, std::size_t row, std::size_t col) {
      const Doubles values = block.doubles();
      for (std::size_t at = 0; at < rows * 3; ++at) {
        expected[(row + at / 3) * 6 + col + at % 3] = values[at] / 2;
      }
    };
    put(first, 70, 0, 0);
    put(second, 50, 130, 3);
    EXPECT_EQ(wide.doubles(), TestTensor(dtype, {200, 6}, expected).doubles());
  }
}

TEST(LowRank, WhatStandsInABlocksPlaceIsAddedToIt) {
  CpuDevice device(Device::kAlignment, 2);
  const auto stream = device.make_stream("test");
  const TestTensor wide = random_tensor(DType::kF32, {100, 5}, 4);
  const TestTensor block = random_tensor(DType::kF32, {80, 2}, 5);
  Doubles expected = block.doubles();
  for (std::size_t at = 0; at < expected.size(); ++at) {
    expected[at] += 2 * wide.doubles()[(20 + at / 2) * 5 + 3 + at % 2];
  }
  add_from_blocks(*stream, {{block, 20, 3}}, wide, 2);
  stream->synchronize();
  for (std::size_t at = 0; at < expected.size(); ++at) EXPECT_NEAR(block.doubles()[at], expected[at], 1e-6);
}

class DropoutTest : public ::testing::Test {
 protected:
  std::vector<std::byte> run(const TestTensor& in, std::uint64_t seed, std::int64_t first_row, double rate) {
    const TestTensor out = in.clone();
    dropout(*stream_, {.in = in, .out = out, .rate = rate, .seed = seed, .first_row = first_row});
    stream_->synchronize();
    return out.bytes();
  }

  CpuDevice device_{Device::kAlignment, 2};
  std::unique_ptr<Stream> stream_ = device_.make_stream("test");
};

TEST_F(DropoutTest, LeavesOutTheShareAndMakesUpForIt) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TestTensor in(dtype, {400, 101}, Doubles(400 * 101, 1));
    const TestTensor out(dtype, {400, 101});
    dropout(*stream_, {.in = in, .out = out, .rate = 0.2, .seed = 6});
    stream_->synchronize();
    std::size_t num_left_out = 0;
    for (const double value : out.doubles()) {
      EXPECT_TRUE(value == 0 || value == 1.25) << value;
      num_left_out += value == 0 ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(num_left_out) / (400 * 101), 0.2, 0.01);
  }
}

TEST_F(DropoutTest, DependsOnSeedAndPlaceAlone) {
  const TestTensor in = random_tensor(DType::kF32, {64, 37}, 7);
  const std::vector<std::byte> whole = run(in, 8, 0, 0.5);
  EXPECT_NE(run(in, 9, 0, 0.5), whole);
  EXPECT_NE(run(in, 8, 64, 0.5), whole);
  const Doubles values = in.doubles();
  const Doubles second_half(values.begin() + 32 * 37, values.end());
  const TestTensor half(DType::kF32, {32, 37}, second_half);
  EXPECT_EQ(run(half, 8, 32, 0.5), std::vector<std::byte>(whole.begin() + 32 * 37 * 4, whole.end()));
  for (const std::int64_t target : cpu::ForcedTarget::all()) {
    const cpu::ForcedTarget forced(target);
    EXPECT_EQ(run(in, 8, 0, 0.5), whole) << cpu::ForcedTarget::name(target);
  }
}

}  // namespace
}  // namespace sluice
