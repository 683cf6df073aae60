// SPDX-License-Identifier: Apache-2.0
#include "train/lr_schedule.h"

#include <cmath>

#include <gtest/gtest.h>

namespace sluice {
namespace {

constexpr double kPeak = 2e-4;

LrSchedule schedule_of(LrScheduler scheduler) {
  return {.scheduler = scheduler, .peak_lr = kPeak, .warmup_steps = 10, .total_steps = 110};
}

TEST(LrSchedule, WarmsUpFromZeroToThePeakInEqualParts) {
  for (const LrScheduler scheduler : {LrScheduler::kConstantWithWarmup, LrScheduler::kLinear, LrScheduler::kCosine}) {
    const LrSchedule schedule = schedule_of(scheduler);
    EXPECT_EQ(schedule.rate(0), 0.0);
    EXPECT_DOUBLE_EQ(schedule.rate(1), 2e-5);
    EXPECT_DOUBLE_EQ(schedule.rate(5), 1e-4);
    EXPECT_DOUBLE_EQ(schedule.rate(9), 1.8e-4);
    EXPECT_DOUBLE_EQ(schedule.rate(10), kPeak);
  }
}

TEST(LrSchedule, LinearFallsByTheSameAmountEveryStepAndStaysAtZero) {
  const LrSchedule schedule = schedule_of(LrScheduler::kLinear);
  EXPECT_DOUBLE_EQ(schedule.rate(11), 1.98e-4);
  EXPECT_DOUBLE_EQ(schedule.rate(35), 1.5e-4);
  EXPECT_DOUBLE_EQ(schedule.rate(60), 1e-4);
  EXPECT_DOUBLE_EQ(schedule.rate(109), 2e-6);
  EXPECT_EQ(schedule.rate(110), 0.0);
  EXPECT_EQ(schedule.rate(1000), 0.0);
}

// cos is known in closed form at thirds, quarters and twelfths of the way.
TEST(LrSchedule, CosineIsTheRaisedCosineOverTheStepsAfterTheWarmup) {
  const LrSchedule schedule{
      .scheduler = LrScheduler::kCosine, .peak_lr = kPeak, .warmup_steps = 12, .total_steps = 132};
  EXPECT_NEAR(schedule.rate(12 + 20), kPeak * 0.5 * (1 + std::sqrt(3.0) / 2), 1e-18);
  EXPECT_NEAR(schedule.rate(12 + 30), kPeak * 0.5 * (1 + std::sqrt(0.5)), 1e-18);
  EXPECT_NEAR(schedule.rate(12 + 40), kPeak * 0.75, 1e-18);
  EXPECT_NEAR(schedule.rate(12 + 60), kPeak * 0.5, 1e-18);
  EXPECT_NEAR(schedule.rate(12 + 80), kPeak * 0.25, 1e-18);
  EXPECT_NEAR(schedule.rate(12 + 10), kPeak * 0.5 * (1 + (std::sqrt(6.0) + std::sqrt(2.0)) / 4), 1e-18);
  EXPECT_NEAR(schedule.rate(132), 0.0, 1e-18);
}

TEST(LrSchedule, ConstantIgnoresTheWarmupThatItsSiblingHas) {
  EXPECT_EQ(schedule_of(LrScheduler::kConstant).rate(0), kPeak);
  EXPECT_EQ(schedule_of(LrScheduler::kConstant).rate(500), kPeak);
  EXPECT_EQ(schedule_of(LrScheduler::kConstantWithWarmup).rate(500), kPeak);
}

TEST(LrSchedule, ARunThatEndsWithinItsWarmupOnlyRises) {
  const LrSchedule schedule{.scheduler = LrScheduler::kLinear, .peak_lr = 1, .warmup_steps = 8, .total_steps = 4};
  EXPECT_DOUBLE_EQ(schedule.rate(3), 0.375);
  EXPECT_DOUBLE_EQ(schedule.rate(7), 0.875);
  EXPECT_EQ(schedule.rate(8), 0.0);
}

TEST(LrSchedule, WarmupIsStepsOrTheRatioRoundedUp) {
  EXPECT_EQ(warmup_steps_of(0, 0.03, 101), 4U);  // 3.03
  EXPECT_EQ(warmup_steps_of(0, 0.1, 50), 5U);
  EXPECT_EQ(warmup_steps_of(7, 0.5, 100), 7U);
  EXPECT_EQ(warmup_steps_of(0, 0, 100), 0U);
}

}  // namespace
}  // namespace sluice
