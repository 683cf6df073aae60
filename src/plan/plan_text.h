// SPDX-License-Identifier: Apache-2.0
// A plan for the person at the terminal: what lies where against the budgets, the schedule in words, what each lane
// does and which one the step waits for, how long the run takes and what it costs the drives.
#pragma once

#include <cstddef>
#include <string>

#include "plan/planner.h"

namespace sluice {

// Two lines of text: what is trained, and the cost of a step and of the run.
struct PlanSummary {
  std::string model;
  std::string outcome;
};
PlanSummary summarize(const Plan& plan);

// Lines of at most max(`num_columns`, 39); ends with a newline.
std::string render_plan(const Plan& plan, std::size_t num_columns);
std::string render_failure(const NoPlanFits& failure, std::size_t num_columns);
std::string render_changes(const NoPlanFits& failure, std::size_t num_columns);  // without the reason of the failure

}  // namespace sluice
