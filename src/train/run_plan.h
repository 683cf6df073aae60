// SPDX-License-Identifier: Apache-2.0
// From a configuration to a plan, and from a plan to the memory of a run. `sluice train`, `plan` and `bench step` go
// through here, so that what is shown is what runs. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/planner.h"
#include "train/train_config.h"
#include "train/training_job.h"

namespace sluice {

// What a run takes where nobody says: nearly all, but some of everything is the system's, and a CPU that plays the
// device has one memory for both; the store leaves some of each drive. `free_host_bytes`: of host memory, what nobody
// uses.
TierBudgets default_budgets(const Machine& machine, std::uint64_t free_host_bytes);

// Host memory outside the budgets: the largest trained slice, while it is written to a checkpoint.
std::uint64_t largest_saved_bytes(const Architecture& arch, DType dtype);

// How to count reserved memory: the pages that the run touches, or all, since `ulimit -v` limits address space.
enum class ArenaBytes { kTouched, kReserved };
// Peak host memory of the run: its steps while a checkpoint is saved, or the import of the base model, a whole slice at
// a time. Excludes memory used before the run is opened: program, tokenizer, data.
std::uint64_t peak_host_bytes(const Plan& plan, ArenaBytes arena);

struct RunShape {
  Architecture arch;
  Machine machine;
  std::int64_t num_devices = 1;
  TierBudgets default_budgets;  // where the configuration has none; of the drives, always
  std::int64_t num_steps = 1;
  RunCheckpoints checkpoints;
};
// Throws NoPlanFits where a drive is full.
PlanRequest plan_request(const TrainConfig& config, const RunShape& shape);

struct RunPlan {
  Plan plan;  // all that the run takes: a ring for its checkpoints too
  JobMemory memory;
};
// Throws what make_plan() does. The device is of the machine's kind.
RunPlan plan_run(const PlanRequest& request, std::size_t num_threads, const DeviceChoice& device = {});

// Directories that exist on the drives where the run's state goes, one a drive: what is measured for a plan. Those of
// two drives may be the same where neither is there yet.
std::vector<std::string> drive_directories(const TrainConfig& config);

std::size_t num_threads_of(const TrainConfig& config);

}  // namespace sluice
