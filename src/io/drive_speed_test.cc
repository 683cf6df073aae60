// SPDX-License-Identifier: Apache-2.0
#include "io/drive_speed.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/units.h"
#include "io/choose_engine.h"
#include "io/posix/posix_file.h"
#include "io/scratch_directory.h"

namespace sluice {
namespace {

TEST(DriveSpeed, IsMeasuredEachWayAndBothAtOnceAndLeavesNothing) {
  const ScratchDirectory place;
  PosixFileSystem files;
  const EngineChoice choice = choose_engine({place.path()});
  const SteadyClock clock;
  const DriveSpeed speed = measure_drive(
      {.files = files, .engine = *choice.engine, .caching = choice.caching, .clock = clock}, place.path(), 64 * kMiB);
  EXPECT_GT(speed.read_gb_per_s, 0);
  EXPECT_GT(speed.write_gb_per_s, 0);
  EXPECT_GT(speed.mixed_gb_per_s, 0);
  EXPECT_TRUE(std::filesystem::is_empty(place.path()));
}

}  // namespace
}  // namespace sluice
