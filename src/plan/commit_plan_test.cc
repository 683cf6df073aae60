// SPDX-License-Identifier: Apache-2.0
#include "plan/commit_plan.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace sluice {
namespace {

Machine with_drive(double write_bytes_per_s, std::optional<std::uint64_t> endurance_bytes) {
  Machine machine;
  machine.drives.push_back({.name = "drive",
                            .size_bytes = kTiB,
                            .read_bytes_per_s = 2 * write_bytes_per_s,
                            .write_bytes_per_s = write_bytes_per_s,
                            .endurance_bytes = endurance_bytes});
  return machine;
}

TEST(CommitPlan, SmallStatesAreCommittedEveryTenMinutes) {
  const CommitPlan plan = plan_commits(with_drive(1e9, std::nullopt), 1'000'000'000, std::nullopt);
  EXPECT_DOUBLE_EQ(plan.seconds, 1);
  EXPECT_DOUBLE_EQ(plan.every_s, 600);
  EXPECT_DOUBLE_EQ(plan.count(6000), 10);
}

TEST(CommitPlan, LargeStatesCostAtMostThreePercentOfTheTime) {
  const CommitPlan plan = plan_commits(with_drive(1e9, std::nullopt), 96'000'000'000, std::nullopt);
  EXPECT_DOUBLE_EQ(plan.seconds, 96);
  EXPECT_DOUBLE_EQ(plan.seconds / plan.every_s, 0.03);
}

TEST(CommitPlan, ADrivesWearStretchesTheInterval) {
  // 600 TB of endurance: at most 0.6 TB a day, so ten commits of 60 GB.
  const CommitPlan plan = plan_commits(with_drive(1e11, 600'000'000'000'000), 60'000'000'000, std::nullopt);
  EXPECT_DOUBLE_EQ(plan.every_s, 8640);
}

TEST(CommitPlan, AnIntervalThatIsAskedForIsKept) {
  EXPECT_DOUBLE_EQ(plan_commits(with_drive(1e9, 1), 96'000'000'000, 30.0).every_s, 30);
}

}  // namespace
}  // namespace sluice
