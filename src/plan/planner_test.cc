// SPDX-License-Identifier: Apache-2.0
#include "plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sanitizer.h"
#include "model/known_shapes.h"
#include "plan/handmade_plan.h"
#include "plan/plan_json.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

PlanRequest small_request(const TierBudgets& budgets) {
  PlanRequest request{.model = "handmade", .arch = small_arch(8), .machine = slow_machine()};
  request.sequence_len = 512;
  request.accumulation = 6;
  request.num_steps = 100;
  request.budgets = budgets;
  request.buffers = {.chunk_bytes = 64 * kKiB, .staging_bytes = kMiB, .optimizer_windows = 2};
  return request;
}

bool fits_by_step_memory(const Plan& plan) {
  return fits(step_memory(plan.request.arch, plan.schedule, plan.buffers), plan.request.budgets);
}

// From where nearly all is on the drives to where all is on the device.
const std::vector<TierBudgets> kBudgets{{28 * kMiB, 24 * kMiB, kGiB},  {28 * kMiB, 48 * kMiB, kGiB},
                                        {32 * kMiB, 96 * kMiB, kGiB},  {40 * kMiB, 128 * kMiB, kGiB},
                                        {48 * kMiB, 256 * kMiB, kGiB}, {96 * kMiB, 512 * kMiB, kGiB},
                                        {512 * kMiB, 512 * kMiB, kGiB}};

TEST(Planner, EveryPlanFitsItsBudgetsAsTheTrainerAllocates) {
  for (const TierBudgets& budgets : kBudgets) {
    const Plan plan = make_plan(small_request(budgets));
    EXPECT_TRUE(fits_by_step_memory(plan)) << format_bytes(budgets.device);
    EXPECT_EQ(plan.memory, step_memory(plan.request.arch, plan.schedule, plan.buffers));
  }
}

TEST(Planner, MoreMemoryIsNeverSlower) {
  // Two plans within what a forecast can tell count as equal, and the one that spares drives and memory wins.
  constexpr double kTolerance = 1.02;
  double before_s = 1e9;
  for (const TierBudgets& budgets : kBudgets) {
    const double step_s = make_plan(small_request(budgets)).forecast.step_s;
    EXPECT_LE(step_s, before_s * kTolerance) << format_bytes(budgets.device) << ", " << format_bytes(budgets.host);
    before_s = std::min(before_s, step_s);
  }
}

// Memory of a device that is spare is memory: what stays there goes neither to the host nor to the drives.
TEST(Planner, SpareMemoryOfTheDeviceKeepsBlocks) {
  PlanRequest request = small_request({.device = 64 * kMiB, .host = 24 * kMiB, .drives = kGiB});
  const Plan plan = make_plan(request);
  std::size_t num_resident = 0;
  for (const SliceHomes& homes : plan.schedule.homes) {
    const bool is_resident =
        homes.weights == Home::kDevice && homes.optimizer == Home::kDevice && homes.gradients == Home::kDevice;
    num_resident += is_resident ? 1 : 0;
  }
  EXPECT_GT(num_resident, 0U);
  EXPECT_LT(num_resident, plan.schedule.homes.size());
  EXPECT_TRUE(fits_by_step_memory(plan));
  // With no drives at all, it may be what makes a run fit.
  const TierBytes held = plan.memory.device;
  request.budgets = {.device = held.total() + 40 * kMiB, .host = 80 * kMiB, .drives = 0};
  request.checkpoints.reset();
  const Plan without_drives = make_plan(request);
  EXPECT_TRUE(fits_by_step_memory(without_drives));
  EXPECT_LE(without_drives.memory.host.total(), request.budgets.host);
}

TEST(Planner, BesideAnAdapterTheBaseIsReadAndNeverWritten) {
  PlanRequest request = small_request(kBudgets.front());
  const Plan full = make_plan(request);
  request.arch.adapter = {.rank = 8, .alpha = 16};
  request.arch.adapter.sites = {{.module = "q_proj", .projection = Projection::kQkv, .num_rows = 256},
                                {.module = "down_proj", .projection = Projection::kDown, .num_rows = 256}};
  request.budgets = {.device = 24 * kMiB, .host = 16 * kMiB, .drives = kGiB};
  const Plan plan = make_plan(request);
  EXPECT_TRUE(fits_by_step_memory(plan));
  EXPECT_GT(plan.memory.drives.weights, 0U);
  EXPECT_EQ(plan.forecast.load.drive_written_bytes, 0);
  EXPECT_LT(plan.memory.drives.total(), full.memory.drives.total() / 4);
  request.arch.adapter.base = BaseFormat::kNf4;
  request.arch.adapter.matrices = {{.module = "qkv", .projection = Projection::kQkv, .num_rows = 512},
                                   {.module = "out", .projection = Projection::kOut, .num_rows = 256},
                                   {.module = "up", .projection = Projection::kUp, .num_rows = 1360},
                                   {.module = "down", .projection = Projection::kDown, .num_rows = 256}};
  EXPECT_LT(make_plan(request).memory.drives.weights, plan.memory.drives.weights / 2);
}

// Every plan is within the budgets; state that is shorter writes less to the drives.
TEST(Planner, GoesByTheFormOfTheOptimizersState) {
  double written_bytes = 1e18;
  for (const OptimizerState optimizer :
       {OptimizerState::kAdamWF32, OptimizerState::kAdamWBF16, OptimizerState::kAdamW8Bit, OptimizerState::kSgd}) {
    PlanRequest request = small_request(kBudgets[0]);
    request.optimizer = optimizer;
    const Plan plan = make_plan(request);
    EXPECT_TRUE(fits_by_step_memory(plan)) << name(optimizer);
    EXPECT_EQ(plan.schedule.optimizer, optimizer);
    EXPECT_LT(plan.forecast.load.drive_written_bytes, written_bytes) << name(optimizer);
    written_bytes = plan.forecast.load.drive_written_bytes;
  }
}

// An optimizer that keeps nothing has nothing to place.
TEST(Planner, PlacesWhatSgdOfF32WeightsKeeps) {
  for (const TierBudgets& budgets : kBudgets) {
    PlanRequest request = small_request(budgets);
    request.budgets.device *= 2;
    request.dtype = DType::kF32;
    request.optimizer = OptimizerState::kSgd;
    const Plan plan = make_plan(request);
    EXPECT_EQ(plan.memory.device.optimizer + plan.memory.host.optimizer + plan.memory.drives.optimizer, 0U);
    EXPECT_TRUE(std::none_of(plan.schedule.homes.begin(), plan.schedule.homes.end(),
                             [](const SliceHomes& homes) { return homes.optimizer == Home::kNvme; }));
  }
}

TEST(Planner, TheSameRequestGivesTheSamePlan) {
  EXPECT_EQ(to_json(make_plan(small_request(kBudgets[2]))), to_json(make_plan(small_request(kBudgets[2]))));
}

TEST(Planner, KeepsEverythingOnTheDeviceWhereItFits) {
  const Plan plan = make_plan(small_request(kBudgets.back()));
  for (const SliceHomes& homes : plan.schedule.homes) {
    EXPECT_EQ(homes.weights, Home::kDevice);
    EXPECT_EQ(homes.optimizer, Home::kDevice);
    EXPECT_EQ(homes.gradients, Home::kDevice);
  }
  EXPECT_EQ(plan.forecast.load.drive_written_bytes, 0);
}

TEST(Planner, SpareDeviceMemoryHoldsIntermediatesAndTheStepIsShorter) {
  // No state can make room for them elsewhere.
  PlanRequest request = small_request({.device = 512 * kMiB, .host = 0, .drives = 0});
  const Plan all = make_plan(request);
  EXPECT_EQ(all.schedule.stored_layers, request.arch.num_layers());
  Schedule schedule = all.schedule;
  schedule.stored_layers = 0;
  request.wave = schedule.wave;
  request.group = schedule.group;
  request.boundaries = schedule.boundaries;
  request.budgets.device = step_memory(request.arch, schedule, all.buffers).device.total();
  const Plan none = make_plan(request);
  EXPECT_EQ(none.schedule.stored_layers, 0);
  EXPECT_LT(all.forecast.step_s, 0.9 * none.forecast.step_s);
  // Room for half of them, all but a byte.
  request.budgets.device += (all.memory.device.total() - request.budgets.device) / 2 - 1;
  const Plan some = make_plan(request);
  EXPECT_TRUE(fits_by_step_memory(some));
  EXPECT_EQ(some.schedule.stored_layers, request.arch.num_layers() / 2 - 1);
  EXPECT_LT(all.forecast.step_s, some.forecast.step_s);
  EXPECT_LT(some.forecast.step_s, none.forecast.step_s);
}

TEST(Planner, LeavesTheDrivesAloneWhereMemoryHoldsTheState) {
  PlanRequest request = small_request({48 * kMiB, 512 * kMiB, kGiB});
  const Plan plan = make_plan(request);
  EXPECT_EQ(plan.memory.drives.total(), plan.memory.drives.checkpoints) << "the run is kept at its end, and not before";
  EXPECT_EQ(plan.memory.host.buffers, 0U);
  request.checkpoints.reset();
  EXPECT_EQ(make_plan(request).memory.drives.total(), 0U);
}

TEST(Planner, EveryCheckpointThatIsKeptTakesTheDrivesAWholeState) {
  PlanRequest request = small_request({48 * kMiB, 512 * kMiB, 16 * kGiB});
  const std::uint64_t state = make_plan(request).memory.drives.checkpoints;
  request.checkpoints = {.num_to_come = 4};
  EXPECT_EQ(make_plan(request).memory.drives.checkpoints, 5 * state) << "four, and the one at the end";
  request.checkpoints->most_kept = 2;
  EXPECT_EQ(make_plan(request).memory.drives.checkpoints, 3 * state);
  // With all of the state on the drives, steps work with a version of their own beside what is committed.
  request.budgets.host = 0;
  request.budgets.host = least_memory(request).host.total();
  const Plan drives = make_plan(request);
  EXPECT_EQ(drives.memory.host.weights + drives.memory.host.optimizer, 0U);
  EXPECT_EQ(drives.memory.drives.checkpoints, 3 * (drives.memory.drives.weights + drives.memory.drives.optimizer));
}

TEST(Planner, OffersToKeepFewerCheckpointsWhereTheDrivesAreSmall) {
  PlanRequest request = small_request({48 * kMiB, 512 * kMiB, 16 * kGiB});
  request.budgets.drives = 2 * make_plan(request).memory.drives.total();
  request.machine.drives[0].size_bytes = request.budgets.drives;
  request.checkpoints = {.num_to_come = 4};
  try {
    make_plan(request);
    FAIL() << "the drives hold two states";
  } catch (const NoPlanFits& failure) {
    ASSERT_EQ(failure.changes().size(), 1U);
    EXPECT_EQ(failure.changes()[0].text, "save_total_limit 1 instead of none");
    EXPECT_TRUE(fits_by_step_memory(make_plan(failure.changes()[0].request)));
  }
}

TEST(Planner, PassesWeightsOnceForManyMicroBatchesWhereTheLinkIsSlow) {
  PlanRequest request = small_request({48 * kMiB, 512 * kMiB, 0});
  request.machine.links = {.to_device_bytes_per_s = 1e8, .from_device_bytes_per_s = 1e8};
  EXPECT_EQ(make_plan(request).schedule.wave, request.accumulation);
}

TEST(Planner, WhatTheUserFixedIsKept) {
  PlanRequest request = small_request(kBudgets[4]);
  request.wave = 2;
  request.group = 2;
  request.boundaries = Home::kHost;
  const Plan plan = make_plan(request);
  EXPECT_EQ(plan.schedule.wave, 2);
  EXPECT_EQ(plan.schedule.group, 2);
  EXPECT_EQ(plan.schedule.boundaries, Home::kHost);
}

TEST(Planner, IsAtLeastAsFastAsEveryScheduleThatWasFixedByHand) {
  const double best_s = make_plan(small_request(kBudgets[2])).forecast.step_s;
  for (const std::int64_t wave : {1, 2, 3, 6}) {
    for (const std::int64_t group : {1, 2}) {
      PlanRequest request = small_request(kBudgets[2]);
      request.wave = wave;
      request.group = group;
      try {
        EXPECT_LE(best_s, make_plan(request).forecast.step_s * 1.02) << wave << ", " << group;
      } catch (const NoPlanFits&) {
        continue;
      }
    }
  }
}

TEST(Planner, WhereNothingFitsSaysWhatIsMissingAndWhatWouldDo) {
  PlanRequest request = small_request({28 * kMiB, 24 * kMiB, 0});
  request.micro_batch_size = 8;
  request.machine.drives.clear();
  try {
    make_plan(request);
    FAIL() << "there is no such plan";
  } catch (const NoPlanFits& failure) {
    EXPECT_THAT(failure.what(), AllOf(HasSubstr("device memory (28 MiB given)"),
                                      HasSubstr("host memory (24 MiB given)"), HasSubstr("no cache directory")));
  }
  // One thing is missing: each change mends it.
  request.budgets.host = 512 * kMiB;
  try {
    make_plan(request);
    FAIL() << "there is no such plan";
  } catch (const NoPlanFits& failure) {
    ASSERT_EQ(failure.changes().size(), 3U);
    for (const PlanChange& change : failure.changes()) {
      EXPECT_TRUE(fits_by_step_memory(make_plan(change.request))) << change.text;
    }
  }
}

TEST(Planner, AsksForADriveWhereStateHasNoHome) {
  PlanRequest request = small_request({48 * kMiB, 32 * kMiB, 0});
  request.machine.drives.clear();
  request.machine.host.size_bytes = 32 * kMiB;
  request.machine.device.size_bytes = 48 * kMiB;
  try {
    make_plan(request);
    FAIL() << "there is no such plan";
  } catch (const NoPlanFits& failure) {
    ASSERT_EQ(failure.changes().size(), 1U);
    EXPECT_EQ(failure.changes()[0].key, "cache");
    EXPECT_TRUE(fits_by_step_memory(make_plan(failure.changes()[0].request)));
  }
}

TEST(Planner, RefusesWhatTheMachineDoesNotHave) {
  PlanRequest request = small_request(kBudgets[0]);
  request.num_devices = 2;
  EXPECT_THROW(make_plan(request), InvalidInput);
  request.num_devices = 1;
  request.budgets.device = 2 * kTiB;
  EXPECT_THROW(make_plan(request), InvalidInput);
  request = small_request({kTiB / 2, kTiB / 2 + 1, 0});
  EXPECT_NO_THROW(make_plan(request));
  request.machine.device.kind = Processor::kCpu;  // one memory for both
  EXPECT_THROW(make_plan(request), InvalidInput);
  request = small_request(kBudgets[0]);
  request.sequence_len = 0;
  EXPECT_THROW(make_plan(request), InvalidInput);
  request = small_request(kBudgets[0]);
  request.wave = 7;
  EXPECT_THROW(make_plan(request), InvalidInput);
}

TEST(Planner, CountsWhatTheRunTakesOfADrivesLife) {
  const Plan plan = make_plan(small_request(kBudgets[1]));
  ASSERT_GT(plan.forecast.load.drive_written_bytes, 0);
  EXPECT_DOUBLE_EQ(plan.run_written_bytes(0), 100 * plan.forecast.load.drive_written_bytes);
  EXPECT_DOUBLE_EQ(*plan.run_share_of_life(0), plan.run_written_bytes(0) / 1e14);
}

PlanRequest shipped_request(const std::string& file, const std::string& model) {
  PlanRequest request{.model = model};
  request.arch = describe_model(ConfigReader(model, nlohmann::json(known_config(model)))).arch;
  request.machine = read_machine(SLUICE_MACHINES "/" + file);
  request.sequence_len = 4096;
  request.accumulation = 8;
  request.budgets = {.device = request.machine.device.size_bytes / 100 * 95,
                     .host = request.machine.host.size_bytes / 100 * 90,
                     .drives = request.machine.drives_size_bytes() / 100 * 95};
  return request;
}

TEST(ShippedMachines, PlanModelsOfTheSizesThatTheyAreBoughtFor) {
  std::vector<const char*> files = {"one-ada.json", "two-ada.json", "four-ada.json", "consumer-16gb.json"};
  if (kIsSanitized) files.resize(1);
  for (const char* file : files) {
    for (const char* model : {"llama-3.1-8b", "llama-3.1-70b"}) {
      const Plan plan = make_plan(shipped_request(file, model));
      EXPECT_TRUE(fits_by_step_memory(plan)) << file << ", " << model;
      // Eight operations a parameter and token are all that the device can do.
      const double most = plan.request.machine.device.flops_per_s.bf16 / 7 /
                          static_cast<double>(plan.request.arch.num_layers() > 32 ? 70e9 : 8e9);
      EXPECT_LT(plan.tokens_per_s(), most) << file << ", " << model;
      EXPECT_GT(plan.tokens_per_s(), most / 5) << file << ", " << model;
    }
  }
  PlanRequest request = shipped_request("h200.json", "llama-3.1-8b");
  EXPECT_THROW(make_plan(request), NoPlanFits) << "its drive holds no commit of so much";
  request.checkpoints.reset();
  EXPECT_TRUE(fits_by_step_memory(make_plan(request)));
  EXPECT_THROW(make_plan(shipped_request("h200.json", "llama-3.1-70b")), NoPlanFits);
}

TEST(Planner, OnACardSpareHostMemoryKeepsAttention) {
  PlanRequest request = shipped_request("h200.json", "llama-3.1-8b");
  request.optimizer = OptimizerState::kAdamWBF16;
  request.sequence_len = 12288;
  request.accumulation = 8;
  request.budgets.device = 16 * kGiB;
  request.budgets.host = 118 * kGiB;
  const Plan kept = make_plan(request);
  EXPECT_TRUE(fits_by_step_memory(kept));
  EXPECT_GT(kept.schedule.kept_attention, 0);
  request.may_store = false;
  const Plan none = make_plan(request);
  EXPECT_EQ(none.schedule.kept_attention, 0);
  EXPECT_EQ(none.schedule.stored_layers, 0);
  EXPECT_LT(kept.forecast.step_s, none.forecast.step_s);
}

}  // namespace
}  // namespace sluice
