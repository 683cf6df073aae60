// SPDX-License-Identifier: Apache-2.0
#include "ops/dynamic_map.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace sluice {
namespace {

// As the map is described in print: for each decade the means of neighbouring boundaries of an even division of
// [0.1, 1], scaled; both signs where there are signs; 0 and 1; sorted.
std::vector<double> described_map(CodeRange range) {
  std::vector<double> values = {0, 1};
  for (int decade = 0; decade < 7; ++decade) {
    const int num_means = 1 << (range == CodeRange::kSigned ? decade : decade + 1);
    const auto boundary = [num_means](int i) { return 0.1 + 0.9 * i / num_means; };
    for (int i = 0; i < num_means; ++i) {
      const double value = std::pow(10, decade - 6) * (boundary(i) + boundary(i + 1)) / 2;
      values.push_back(value);
      if (range == CodeRange::kSigned) values.push_back(-value);
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

TEST(DynamicMap, IsTheDescribedOneWithinTheRoundingOfFloats) {
  for (const CodeRange range : {CodeRange::kSigned, CodeRange::kUnsigned}) {
    const std::vector<double> described = described_map(range);
    const std::array<float, 256> map = dynamic_map(range);
    ASSERT_EQ(described.size(), map.size());
    for (std::size_t code = 0; code < map.size(); ++code) {
      EXPECT_NEAR(static_cast<double>(map[code]), described[code], std::abs(described[code]) * 1.2e-7) << code;
    }
  }
}

TEST(DynamicMap, IsSortedHasZeroAndOneAndIsSymmetricButForOne) {
  constexpr std::array<float, 256> kSigned = dynamic_map(CodeRange::kSigned);
  constexpr std::array<float, 256> kUnsigned = dynamic_map(CodeRange::kUnsigned);
  for (std::size_t code = 1; code < 256; ++code) {
    EXPECT_LT(kSigned[code - 1], kSigned[code]);
    EXPECT_LT(kUnsigned[code - 1], kUnsigned[code]);
  }
  EXPECT_EQ(kSigned[kSignedZeroCode], 0.0F);
  EXPECT_EQ(kUnsigned[0], 0.0F);
  EXPECT_EQ(kSigned[255], 1.0F);
  EXPECT_EQ(kUnsigned[255], 1.0F);
  for (std::size_t distance = 1; distance < 128; ++distance) {
    EXPECT_EQ(kSigned[127 - distance], -kSigned[127 + distance]);
  }
  EXPECT_NEAR(kSigned[254], 0.9929687, 1e-7);    // the middle of the last of 64 buckets
  EXPECT_NEAR(kUnsigned[254], 0.9964844, 1e-7);  // of 128
}

}  // namespace
}  // namespace sluice
