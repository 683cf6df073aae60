// SPDX-License-Identifier: Apache-2.0
#include "plan/kept_versions.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(KeptVersions, ARunWithoutCheckpointsIsCommittedAtItsEnd) {
  const KeptVersions kept = kept_versions({});
  EXPECT_EQ(kept.in_steps, 1U) << "a step stands on the one before";
  EXPECT_EQ(kept.in_commits, 0U);
}

TEST(KeptVersions, CheckpointsBeforeTheLastStepStandBesideIt) {
  const KeptVersions kept = kept_versions({.num_to_come = 3});
  EXPECT_EQ(kept.in_commits, 3U);
  EXPECT_EQ(kept.in_steps, 4U);
}

TEST(KeptVersions, NoMoreAreKeptThanAsked) {
  const KeptVersions two = kept_versions({.num_to_come = 9, .most_kept = 2});
  EXPECT_EQ(two.in_commits, 2U);
  EXPECT_EQ(two.in_steps, 3U);
  EXPECT_EQ(kept_versions({.num_to_come = 9, .most_kept = 0}).in_commits, 1U) << "the newest always stays";
  EXPECT_EQ(kept_versions({.num_to_come = 9, .most_kept = 1, .least_kept = 2}).in_commits, 2U) << "and the best";
}

TEST(KeptVersions, WhereEveryStepIsACheckpointEachStandsOnTheOneBefore) {
  const KeptVersions kept = kept_versions({.num_to_come = 39, .is_every_step = true, .most_kept = 3});
  EXPECT_EQ(kept.in_commits, 3U);
  EXPECT_EQ(kept.in_steps, 3U);
  EXPECT_EQ(kept_versions({.is_every_step = true}).in_steps, 1U);
}

TEST(KeptVersions, ARunThatGoesOnHasWhatStands) {
  // From a checkpoint, with as many as may stay; then from a commit behind them.
  RunCheckpoints checkpoints{.num_standing = 2, .num_to_come = 5, .most_kept = 2};
  EXPECT_EQ(kept_versions(checkpoints).in_commits, 2U);
  checkpoints.goes_on_between = true;
  EXPECT_EQ(kept_versions(checkpoints).in_commits, 3U);
  EXPECT_EQ(kept_versions(checkpoints).in_steps, 3U);
  // With no checkpoint to come, and with more standing than may stay from now on.
  EXPECT_EQ(kept_versions({.goes_on_between = true}).in_commits, 1U);
  const KeptVersions many = kept_versions({.num_standing = 6, .num_to_come = 5, .most_kept = 2});
  EXPECT_EQ(many.in_commits, 6U);
  EXPECT_EQ(many.in_steps, 7U) << "none goes before the next one has come";
}

TEST(KeptVersions, ACommitBetweenCheckpointsStandsBesideThem) {
  EXPECT_EQ(kept_versions({.has_commits_between = true}).in_commits, 1U) << "while the next is written";
  EXPECT_EQ(kept_versions({.num_to_come = 9, .most_kept = 2, .has_commits_between = true}).in_commits, 3U);
  EXPECT_EQ(kept_versions({.num_standing = 2, .has_commits_between = true}).in_commits, 3U);
}

}  // namespace
}  // namespace sluice
