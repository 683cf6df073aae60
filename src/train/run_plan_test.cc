// SPDX-License-Identifier: Apache-2.0
#include "train/run_plan.h"

#include <algorithm>
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

TEST(RunPlan, MemoryThatACardSharesWithTheHostIsCountedOnce) {
  Machine machine = slow_machine();
  machine.device.kind = Processor::kGpu;
  machine.device.size_bytes = 128 * kGiB;
  EXPECT_GT(default_budgets(machine, 100 * kGiB).device + default_budgets(machine, 100 * kGiB).host, 200 * kGiB);
  machine.device.shares_host_memory = true;
  EXPECT_LE(default_budgets(machine, 100 * kGiB).device + default_budgets(machine, 100 * kGiB).host, 90 * kGiB);
  machine.device.size_bytes = 10 * kGiB;
  EXPECT_LE(default_budgets(machine, 100 * kGiB).device, 10 * kGiB);
}

TEST(RunPlan, OfEachDriveTheLastBytesAreNobodys) {
  Machine machine = slow_machine();
  machine.drives[0].size_bytes = kGiB;
  machine.drives.push_back(machine.drives[0]);
  EXPECT_EQ(default_budgets(machine, kGiB).drives, 2 * (kGiB - kDriveMarginBytes));
  machine.drives[1].size_bytes = kMiB;
  EXPECT_EQ(default_budgets(machine, kGiB).drives, 0U);
}

TEST(RunPlan, AFullDriveIsRefused) {
  RunShape shape{.arch = small_arch(2), .machine = slow_machine(), .default_budgets = {kGiB, kGiB, kGiB}};
  EXPECT_EQ(plan_request({}, shape).budgets.drives, kGiB);
  shape.default_budgets.drives = 0;
  EXPECT_THROW(plan_request({}, shape), NoPlanFits);
  shape.machine.drives.clear();
  EXPECT_EQ(plan_request({}, shape).budgets.drives, 0U);
}

PlanRequest small_request(const TierBudgets& budgets) {
  PlanRequest request{.model = "handmade", .arch = small_arch(2), .machine = slow_machine()};
  request.sequence_len = 64;
  request.budgets = budgets;
  request.buffers = {.chunk_bytes = 64 * kKiB, .staging_bytes = 2 * kMiB, .optimizer_windows = 3};
  return request;
}

TEST(RunPlan, WhatIsShownIsAllThatRuns) {
  const PlanRequest request = small_request({.device = 256 * kMiB, .host = 256 * kMiB, .drives = kGiB});
  ASSERT_EQ(make_plan(request).buffers.staging_bytes, 0U) << "all of it fits in memory";
  const RunPlan run = plan_run(request, 1);
  EXPECT_EQ(run.memory.buffers.staging_bytes, 2 * kMiB);
  EXPECT_EQ(run.plan.buffers.staging_bytes, 2 * kMiB);
  EXPECT_EQ(run.plan.memory, step_memory(request.arch, run.memory.schedule, run.memory.buffers));
  EXPECT_LE(run.plan.memory.host.total(), request.budgets.host);
}

TEST(RunPlan, WhereTheRingIsTooMuchTheUsersOwnBudgetIsNamed) {
  PlanRequest request = small_request({});
  request.machine.drives.clear();
  const StepMemory least = least_memory(request);
  request.budgets = {.device = least.device.total(), .host = least.host.total()};
  ASSERT_NO_THROW(make_plan(request));
  try {
    plan_run(request, 1);
    FAIL() << "there is no room for a ring";
  } catch (const NoPlanFits& failure) {
    EXPECT_THAT(failure.what(), testing::HasSubstr("host_memory " + format_bytes(request.budgets.host)));
    ASSERT_FALSE(failure.changes().empty());
    for (const PlanChange& change : failure.changes()) {
      const RunPlan run = plan_run(change.request, 1);
      EXPECT_LE(run.plan.memory.host.total(), change.request.budgets.host) << change.text;
    }
  }
}

TEST(RunPlan, HostMemoryThatHoldsNoRingIsRefusedWithTheLeastThatWorks) {
  const PlanRequest request = small_request({.device = 256 * kMiB, .host = kKiB, .drives = kGiB});
  ASSERT_NO_THROW(make_plan(request)) << "a step fits: all of it is in device memory";
  try {
    plan_run(request, 1);
    FAIL() << "checkpoints have nothing to pass through";
  } catch (const NoPlanFits& failure) {
    EXPECT_THAT(failure.what(), testing::HasSubstr("host_memory is 1 KiB, and this run takes at least 1 MiB"));
    ASSERT_EQ(failure.changes().size(), 1U);
    EXPECT_EQ(failure.changes()[0].key, "host_memory");
    EXPECT_EQ(failure.changes()[0].request.budgets.host, kMiB);
    EXPECT_NO_THROW(plan_run(failure.changes()[0].request, 1));
  }
}

TEST(RunPlan, APlansPeakCountsTheSliceThatIsSavedBesideItsBudgets) {
  PlanRequest request = small_request({.device = 256 * kMiB, .host = 256 * kMiB, .drives = kGiB});
  const Plan of_card = plan_run(request, 1).plan;
  request.machine.device.kind = Processor::kCpu;
  const Plan plan = plan_run(request, 1).plan;
  std::uint64_t largest = 0;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(request.arch); ++slice_idx) {
    largest = std::max(largest, slice_layout(request.arch, slice_idx).size_bytes(request.dtype));
  }
  EXPECT_EQ(largest_saved_bytes(request.arch, request.dtype), largest);
  const std::uint64_t touched = peak_host_bytes(plan, ArenaBytes::kTouched);
  EXPECT_EQ(touched, plan.memory.host.total() + plan.memory.device.total() + largest);
  EXPECT_EQ(peak_host_bytes(plan, ArenaBytes::kReserved), touched - plan.memory.device.total() + 256 * kMiB);
  EXPECT_EQ(peak_host_bytes(of_card, ArenaBytes::kReserved), of_card.memory.host.total() + largest);
}

// Every plan that fits has a staging ring large enough for the store's chunks, whatever the host memory.
TEST(RunPlan, EveryPlanThatFitsHasARing) {
  for (std::uint64_t host = kKiB; host <= 16 * kMiB; host = host * 5 / 4) {
    const PlanRequest request = small_request({.device = 256 * kMiB, .host = host, .drives = kGiB});
    try {
      const RunPlan run = plan_run(request, 1);
      EXPECT_GE(run.memory.buffers.staging_bytes, 4 * request.buffers.chunk_bytes) << host;
      EXPECT_LE(run.plan.memory.host.total(), host);
    } catch (const NoPlanFits& failure) {
      EXPECT_LT(host, kMiB) << failure.what();
    }
  }
}

}  // namespace
}  // namespace sluice
