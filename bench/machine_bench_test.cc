// SPDX-License-Identifier: Apache-2.0
#include "bench/machine_bench.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "io/scratch_directory.h"
#include "plan/handmade_plan.h"

namespace sluice {
namespace {

TEST(MachineBench, OneDriveIsMeasuredOnceWhicheverDirectoryItIsSeenThrough) {
  const ScratchDirectory place;
  const std::string cache = place.path() + "/machine.json";
  const std::string inside = place.path() + "/inside";
  std::filesystem::create_directories(inside);
  const Architecture arch = small_arch(1);  // quick to time, under a sanitizer too
  const auto machine = [&](const std::string& directory) {
    return this_machine({.directories = {directory}, .arch = &arch, .batch_tokens = 16}, cache, Remeasure::kIfChanged);
  };
  const Machine first = machine(place.path());
  const Machine again = machine(inside);
  ASSERT_EQ(again.drives.size(), 1U);
  EXPECT_EQ(again.drives[0].name, inside);
  EXPECT_EQ(again.drives[0].read_bytes_per_s, first.drives[0].read_bytes_per_s);
  EXPECT_EQ(again.host.optimizer_bytes_per_s, first.host.optimizer_bytes_per_s);
}

}  // namespace
}  // namespace sluice
