// SPDX-License-Identifier: Apache-2.0
#include "bench/machine_bench.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "base/sanitizer.h"
#include "io/scratch_directory.h"

namespace sluice {
namespace {

TEST(MachineBench, OneDriveIsMeasuredOnceWhicheverDirectoryItIsSeenThrough) {
  if (kIsSanitized) GTEST_SKIP() << "kernels take minutes to time, and are checked elsewhere";
  const ScratchDirectory place;
  const std::string cache = place.path() + "/machine.json";
  const std::string inside = place.path() + "/inside";
  std::filesystem::create_directories(inside);
  const Machine first = this_machine({.directories = {place.path()}}, cache, Remeasure::kIfChanged);
  const Machine again = this_machine({.directories = {inside}}, cache, Remeasure::kIfChanged);
  ASSERT_EQ(again.drives.size(), 1U);
  EXPECT_EQ(again.drives[0].name, inside);
  EXPECT_EQ(again.drives[0].read_bytes_per_s, first.drives[0].read_bytes_per_s);
  EXPECT_EQ(again.host.optimizer_bytes_per_s, first.host.optimizer_bytes_per_s);
}

}  // namespace
}  // namespace sluice
