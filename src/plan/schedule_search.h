// SPDX-License-Identifier: Apache-2.0
// The schedules that a plan is chosen from: waves, groups, homes, numbers of places and of stored layers, each within
// the budgets, with a bound below which its step cannot be, so that most need no simulation.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/placement.h"
#include "plan/planner.h"

namespace sluice {

struct Candidate {
  Placed placed;
  double least_step_s = 0;
  double drive_written_bytes = 0;  // of a step, at least

  std::uint64_t memory_bytes() const { return placed.memory.device.total() + placed.memory.host.total(); }
};

// Those that fit, those with the least bound first; of equal bounds, those that write less, then those that take less.
std::vector<Candidate> find_candidates(const PlanRequest& request, const StepSimulator& simulator);

// The one that needs the least, whether it fits or not: it is the nearest to fitting.
Placed least_candidate(const PlanRequest& request, const std::vector<SliceSizes>& sizes);

}  // namespace sluice
