// SPDX-License-Identifier: Apache-2.0
// Finds the schedule with the shortest step among those that fit every budget, and says what it costs. The same request
// always gives the same plan. Where nothing fits, says what is missing and which single changes would mend it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/architecture.h"
#include "plan/commit_plan.h"
#include "plan/machine.h"
#include "plan/placement.h"
#include "plan/schedule.h"
#include "plan/step_memory.h"
#include "plan/step_simulator.h"

namespace sluice {

struct PlanRequest {
  std::string model;  // its name, for people
  Architecture arch;
  Machine machine;
  std::int64_t num_devices = 1;
  DType dtype = DType::kBF16;
  OptimizerState optimizer = OptimizerState::kAdamWF32;
  std::int64_t sequence_len = 0;
  std::int64_t micro_batch_size = 1;  // sequences
  std::int64_t accumulation = 1;      // micro-batches of a step
  std::int64_t num_steps = 1;
  TierBudgets budgets;
  StepBuffers buffers{.staging_bytes = 32 * kMiB};
  bool has_kernel_scratch = false;  // of a card: buffers.scratch_bytes follow from the rest
  // Left out: nothing is committed, but where every step is. buffers.kept_versions follow from this. Without
  // drives nobody knows where a run would be kept, and nothing is counted.
  std::optional<RunCheckpoints> checkpoints = RunCheckpoints();
  std::optional<double> commit_every_s;  // the user's interval; nullopt: that of plan_commits()
  // Fixed by the user; left out: the planner chooses.
  std::optional<std::int64_t> wave;
  std::optional<std::int64_t> group;
  std::optional<Home> boundaries;
  bool may_store = true;  // what the backward reads of a layer, rather than compute it again

  std::int64_t batch_tokens() const { return sequence_len * micro_batch_size; }
  std::int64_t step_tokens() const { return batch_tokens() * accumulation; }
};

struct Plan {
  PlanRequest request;
  Schedule schedule;
  StepBuffers buffers;
  StepMemory memory;
  StepForecast forecast;
  std::optional<CommitPlan> commits;  // timed commits; nullopt: every step commits, or the run is too short

  double tokens_per_s() const { return static_cast<double>(request.step_tokens()) / forecast.step_s; }
  double run_s() const { return forecast.step_s * static_cast<double>(request.num_steps); }
  double step_written_bytes(std::size_t drive_idx) const { return forecast.written_bytes(request.machine, drive_idx); }
  double run_written_bytes(std::size_t drive_idx) const;
  // Of what the drive's maker warrants; none where that is unknown.
  std::optional<double> run_share_of_life(std::size_t drive_idx) const;
};

// A change that makes a plan possible; it has been planned.
struct PlanChange {
  std::string key;   // "sequence_len", "micro_batch_size", "gpu_memory", "host_memory", "cache", "save_total_limit"
  std::string text;  // "sequence_len 2048 instead of 4096"
  PlanRequest request;
};

class NoPlanFits : public OutOfBudget {
 public:
  NoPlanFits(const std::string& message, std::vector<PlanChange> changes)
      : OutOfBudget(message), changes_(std::move(changes)) {}
  const std::vector<PlanChange>& changes() const { return changes_; }

 private:
  std::vector<PlanChange> changes_;
};

// Throws InvalidInput where the request makes no sense on its machine, NoPlanFits.
Plan make_plan(const PlanRequest& request);

// The least that any schedule of the request takes; whether it fits tells whether there is a plan.
StepMemory least_memory(const PlanRequest& request);

}  // namespace sluice
