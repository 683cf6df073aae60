// SPDX-License-Identifier: Apache-2.0
// What a user could change so that a run fits: one setting, or memory of both kinds, as little as will do, each really
// planned.
#pragma once

#include <optional>
#include <vector>

#include "plan/planner.h"

namespace sluice {

// None where nothing fits. Throws InvalidInput as make_plan() does.
std::optional<Plan> find_plan(const PlanRequest& request);

// At most three, those that change the least first.
std::vector<PlanChange> find_changes(const PlanRequest& request);

}  // namespace sluice
