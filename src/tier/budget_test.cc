// SPDX-License-Identifier: Apache-2.0
#include "tier/budget.h"

#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Budget, RefusesWhatDoesNotFitNamingWhoAndWhat) {
  Budget budget("device", 10 * kMiB);
  const Reservation held = budget.reserve(7 * kMiB, "weights");
  try {
    const Reservation refused = budget.reserve(4 * kMiB, "layer 3");
    FAIL() << "4 MiB fitted into 3";
  } catch (const OutOfBudget& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("layer 3"), HasSubstr("4 MiB"), HasSubstr("3 MiB"), HasSubstr("device")));
  }
  EXPECT_EQ(budget.used_bytes(), 7 * kMiB);
  const Reservation rest = budget.reserve(3 * kMiB, "layer 3");
  EXPECT_EQ(budget.left_bytes(), 0U);
}

TEST(Budget, ReservationsGiveBackOnceWhereverTheyMove) {
  Budget budget("host", 100);
  {
    Reservation first = budget.reserve(60, "a");
    Reservation moved = std::move(first);
    moved = budget.reserve(30, "b");
    EXPECT_EQ(budget.used_bytes(), 30U);
    EXPECT_EQ(budget.peak_bytes(), 90U);
    moved.release();
    EXPECT_EQ(budget.used_bytes(), 0U);
  }
  EXPECT_EQ(budget.used_bytes(), 0U);
}

TEST(Budget, NeverExceedsItsLimitUnderEightThreads) {
  Budget budget("host", 1000);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&budget] {
      for (int round = 0; round < 2000; ++round) {
        try {
          const Reservation held = budget.reserve(170, "thread");
        } catch (const OutOfBudget&) {
          continue;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(budget.peak_bytes(), 1000U);
  EXPECT_EQ(budget.used_bytes(), 0U);
}

}  // namespace
}  // namespace sluice
