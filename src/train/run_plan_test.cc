// SPDX-License-Identifier: Apache-2.0
#include "train/run_plan.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/scratch_directory.h"
#include "plan/handmade_plan.h"
#include "tier/store_space.h"

namespace sluice {
namespace {

TEST(RunPlan, TheDriveIsThatOfTheOutputFolderOrOfWhatIsThereOfItsPath) {
  const ScratchDirectory place;
  TrainConfig config;
  config.output_dir = place.path() + "/runs/one/";
  EXPECT_THAT(drive_directories(config), testing::ElementsAre(place.path()));
  std::filesystem::create_directories(place.path() + "/runs");
  EXPECT_THAT(drive_directories(config), testing::ElementsAre(place.path() + "/runs"));
  // It may be on another drive than its parent.
  std::filesystem::create_directories(config.output_dir);
  EXPECT_THAT(drive_directories(config), testing::ElementsAre(place.path() + "/runs/one"));
  config.cache = {place.path() + "/runs", place.path() + "/a", place.path() + "/b/c"};
  EXPECT_THAT(drive_directories(config), testing::ElementsAre(place.path() + "/runs", place.path(), place.path()));
}

TEST(RunPlan, OfEachDriveTheLastBytesAreNobodys) {
  Machine machine = slow_machine();
  machine.drives[0].size_bytes = kGiB;
  machine.drives.push_back(machine.drives[0]);
  EXPECT_EQ(default_budgets(machine, kGiB).drives, 2 * (kGiB - kDriveMarginBytes));
  machine.drives[1].size_bytes = kMiB;
  EXPECT_EQ(default_budgets(machine, kGiB).drives, 0U);
}

}  // namespace
}  // namespace sluice
