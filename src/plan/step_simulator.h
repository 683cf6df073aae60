// SPDX-License-Identifier: Apache-2.0
// How long a step of a schedule takes on a machine: its work put on six lanes in the trainer's order (StepRunner, its
// places, the optimizer a step behind), and the lanes run against the machine's speeds. Not in it: what lanes take from
// one another in host memory, commits, and the time to launch kernels.
#pragma once

#include <array>
#include <cstdint>

#include "model/architecture.h"
#include "plan/machine.h"
#include "plan/run_flow.h"
#include "plan/schedule.h"
#include "plan/slice_sizes.h"
#include "plan/step_costs.h"

namespace sluice {

struct StepForecast {
  double step_s = 0;  // from a step to the next, once the run is under way
  LaneLoad load;      // of one step
  // Of step_s, what passed while the step could go on nowhere but in this lane; they add up to it.
  std::array<double, kNumLanes> critical_s{};
  Lane bound = Lane::kCompute;  // the lane that the step waits for longest

  double written_bytes(const Machine& machine, std::size_t drive_idx) const {
    return load.drive_written_bytes * machine.drive_share(drive_idx);
  }
};

class StepSimulator {
 public:
  // What all schedules of a search share is worked out here. `arch` and `machine` outlive this.
  StepSimulator(const Architecture& arch, const Machine& machine, const StepShape& shape, std::uint64_t chunk_bytes);

  StepForecast run(const Schedule& schedule) const;
  const std::vector<SliceSizes>& sizes() const { return sizes_; }
  const StepCosts& costs() const { return costs_; }

 private:
  const Architecture& arch_;
  const Machine& machine_;
  StepShape shape_;
  std::vector<SliceSizes> sizes_;
  StepCosts costs_;
};

}  // namespace sluice
