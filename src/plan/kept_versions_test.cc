// SPDX-License-Identifier: Apache-2.0
#include "plan/kept_versions.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(KeptVersions, ARunWithoutCheckpointsIsCommittedAtItsEnd) {
  const KeptVersions kept = kept_versions({}, 100);
  EXPECT_EQ(kept.in_steps, 1U) << "a step stands on the one before";
  EXPECT_EQ(kept.in_commits, 0U);
}

TEST(KeptVersions, CheckpointsBeforeTheLastStepStandBesideIt) {
  const KeptVersions all = kept_versions({.interval_steps = 10}, 40);
  EXPECT_EQ(all.in_commits, 3U) << "the fourth is what is written last";
  EXPECT_EQ(all.in_steps, 4U);
  EXPECT_EQ(kept_versions({.interval_steps = 10}, 41).in_commits, 4U);
  EXPECT_EQ(kept_versions({.interval_steps = 10}, 41).in_steps, 4U) << "step 41 stands on checkpoint 40";
  EXPECT_EQ(kept_versions({.interval_steps = 10}, 42).in_steps, 5U);
}

TEST(KeptVersions, NoMoreAreKeptThanAsked) {
  const KeptVersions two = kept_versions({.interval_steps = 10, .most_kept = 2}, 40);
  EXPECT_EQ(two.in_commits, 2U);
  EXPECT_EQ(two.in_steps, 3U);
  EXPECT_EQ(kept_versions({.interval_steps = 10, .most_kept = 0}, 40).in_commits, 1U) << "the newest always stays";
}

TEST(KeptVersions, WhereEveryStepIsACheckpointEachStandsOnTheOneBefore) {
  const KeptVersions kept = kept_versions({.interval_steps = 1, .most_kept = 3}, 40);
  EXPECT_EQ(kept.in_commits, 3U);
  EXPECT_EQ(kept.in_steps, 3U);
  EXPECT_EQ(kept_versions({.interval_steps = 1}, 1).in_steps, 1U);
}

}  // namespace
}  // namespace sluice
