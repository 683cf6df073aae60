// SPDX-License-Identifier: Apache-2.0
// Whole training steps as a run takes them, lane by lane: how long a step is beside what its busiest lane has to do. A
// step is counted from where the one before has handed its gradients to the optimizer to where this one has; so the
// optimizer, which runs under the next step, is in it. Tokens are random, the weights those given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "model/checkpoint_slices.h"
#include "tier/lane_trace.h"
#include "train/lane_trace_file.h"
#include "train/run_plan.h"

namespace sluice {

struct StepBenchOptions {
  const ModelDescription* model = nullptr;
  const CheckpointSlices* weights = nullptr;
  const RunPlan* run = nullptr;
  std::vector<std::string> directories;  // one a drive, empty; the store in them is the caller's to remove
  double momentum = 0;                   // of SGD; 0 exactly where the plan's optimizer has none
  int num_warm_up = 2;                   // the first has no optimizer of another under it
  int num_steps = 5;
  int checkpoint_step = 0;  // after which a checkpoint is taken and kept, and the end committed; 0: neither
  std::string trace_path;   // empty: no file
  // Afterwards, with as much as a step moves: a drive keeps up the speed of a short look at it only for so long.
  bool measures_drives = false;
};

struct StepBenchResult {
  struct Step {
    double seconds = 0;
    LaneSeconds busy_s{};
    double bound_s = 0;                               // of its busiest lane
    std::uint64_t read_bytes = 0, written_bytes = 0;  // of the drives
    double drives_s = 0;  // for those, at the speeds of `drives`, both ways at once where that is less
  };
  std::vector<Step> steps;

  // Medians over the steps.
  double step_s = 0;
  double bound_s = 0;
  double ratio = 0;  // of a step to its busiest lane
  LaneSeconds busy_s{};
  Lane bound = Lane::kCompute;
  double drives_s = 0;
  std::vector<MachineDrive> drives;  // as measured afterwards; else as the plan has them

  std::uint64_t device_peak_bytes = 0;
  std::uint64_t host_peak_bytes = 0;
  std::uint64_t drives_peak_bytes = 0;
  std::uint64_t peak_rss_bytes = 0;
  double memory_s = 0;  // before the first step: to take all memory
  double load_s = 0;    // and to fill it with weights
};

// Throws what a session throws; Cancelled when interrupted.
StepBenchResult run_step_bench(const StepBenchOptions& options, const ProgressSink& progress);

}  // namespace sluice
