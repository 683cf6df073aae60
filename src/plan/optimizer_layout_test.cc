// SPDX-License-Identifier: Apache-2.0
#include "plan/optimizer_layout.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace sluice {
namespace {

struct Case {
  DType weights;
  OptimizerState state;
  double bytes_per_element;  // without padding
};

const std::vector<Case> kCases{
    {DType::kBF16, OptimizerState::kAdamWF32, 10},   {DType::kF32, OptimizerState::kAdamWF32, 8},
    {DType::kBF16, OptimizerState::kAdamWBF16, 6},   {DType::kF32, OptimizerState::kAdamWBF16, 4},
    {DType::kBF16, OptimizerState::kAdamW8Bit, 4},   {DType::kF32, OptimizerState::kAdamW8Bit, 2},
    {DType::kBF16, OptimizerState::kSgd, 2},         {DType::kF32, OptimizerState::kSgd, 0},
    {DType::kBF16, OptimizerState::kSgdMomentum, 6}, {DType::kF32, OptimizerState::kSgdMomentum, 4},
};

TEST(OptimizerLayout, AStateTakesItsBytesAndLittleMore) {
  for (const std::uint64_t chunk_bytes : {4 * kKiB, 64 * kKiB, kMiB}) {
    for (const Case& one : kCases) {
      constexpr std::uint64_t kElements = 200'000'000;  // a block of a model of some 8 billion parameters
      const OptimizerLayout layout(one.weights, one.state, chunk_bytes, kElements);
      const double bytes = static_cast<double>(layout.run_bytes()) / kElements;
      EXPECT_GE(bytes, one.bytes_per_element);
      const double padding = one.state == OptimizerState::kAdamW8Bit ? 1.30 : 1.02;
      EXPECT_LE(bytes, one.bytes_per_element * padding) << name(one.state) << ", " << chunk_bytes;
    }
  }
}

TEST(OptimizerLayout, WindowsAreWholeChunksAndNeverLongerThanTheLargest) {
  for (const std::uint64_t chunk_bytes : {4 * kKiB, 64 * kKiB, kMiB}) {
    for (const Case& one : kCases) {
      const OptimizerLayout largest = OptimizerLayout::largest(one.weights, one.state, chunk_bytes);
      for (const std::uint64_t num_elements :
           {std::uint64_t{1}, 300 * kKiB, 524'289 * std::uint64_t{1}, 5 * kMiB + 7}) {
        const OptimizerLayout layout(one.weights, one.state, chunk_bytes, num_elements);
        EXPECT_LE(layout.window_elements(), largest.window_elements());
        EXPECT_LE(layout.stride_bytes(), largest.stride_bytes());
        EXPECT_TRUE(is_aligned(layout.window_elements() * size_bytes(DType::kBF16), chunk_bytes));
        EXPECT_TRUE(is_aligned(layout.stride_bytes(), chunk_bytes));
        EXPECT_TRUE(is_aligned(layout.window_elements(), OptimizerLayout::kBlock));
        EXPECT_EQ(layout.run_bytes(), div_ceil(num_elements, layout.window_elements()) * layout.stride_bytes());
      }
    }
  }
}

TEST(OptimizerLayout, ViewsOfDifferentElementsShareNoByte) {
  for (const Case& one : kCases) {
    const OptimizerLayout layout(one.weights, one.state, 4 * kKiB, 2048);
    std::vector<std::byte> window(layout.stride_bytes());
    std::set<const std::byte*> seen;
    std::size_t num_bytes = 0;
    const auto see = [&](const TensorView& view, std::uint64_t count, std::uint64_t bytes) {
      EXPECT_TRUE(view.bytes().empty() || view.bytes().size() == count * bytes);
      for (const std::byte& byte : view.bytes()) {
        EXPECT_TRUE(&byte >= window.data() && &byte < window.data() + window.size());
        seen.insert(&byte);
        ++num_bytes;
      }
    };
    const auto see_all = [&](std::uint64_t first, std::uint64_t count) {
      const OptimizerLayout::Views views = layout.view(window, first, count);
      const std::uint64_t blocks = div_ceil(count, OptimizerLayout::kBlock);
      see(views.trailing, count, 2);
      see(views.m, count, views.m.bytes().size() / count);
      see(views.v, count, views.m.bytes().size() / count);
      see(views.m_absmax, blocks, sizeof(float));
      see(views.v_absmax, blocks, sizeof(float));
      see(views.velocity, count, sizeof(float));
    };
    see_all(0, 512);
    see_all(512, 100);
    see_all(768, 2048 - 768);
    EXPECT_EQ(seen.size(), num_bytes) << name(one.state);
    EXPECT_EQ(num_bytes == 0, one.bytes_per_element == 0);
  }
}

}  // namespace
}  // namespace sluice
