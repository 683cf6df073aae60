// SPDX-License-Identifier: Apache-2.0
#include "base/f16.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(F16, EveryHalfSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const F16 half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_f16(value))));
    } else {
      EXPECT_EQ(to_f16(value).bits, half.bits);
    }
  }
}

// Between neighbours, what lies in the middle goes to the even one, and what lies beside it to the nearer.
TEST(F16, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const auto lower = static_cast<std::uint16_t>(bits);
    const auto upper = static_cast<std::uint16_t>(bits + 1);
    const float middle = (to_float(F16{lower}) + to_float(F16{upper})) / 2;  // exact
    EXPECT_EQ(to_f16(middle).bits, (bits & 1) == 0 ? lower : upper);
    EXPECT_EQ(to_f16(std::nextafter(middle, 0.0F)).bits, lower);
    EXPECT_EQ(to_f16(std::nextafter(middle, 1e9F)).bits, upper);
    EXPECT_EQ(to_f16(-middle).bits, to_f16(middle).bits | 0x8000);
  }
}

TEST(F16, WhatIsTooLargeBecomesInfinite) {
  EXPECT_EQ(to_float(to_f16(65519.99F)), 65504);
  EXPECT_EQ(to_float(to_f16(65520)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(to_float(to_f16(-1e30F)), -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace sluice
