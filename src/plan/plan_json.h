// SPDX-License-Identifier: Apache-2.0
// A plan as plan.json: everything that was asked and found, complete enough that a trainer can run its schedule.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "plan/planner.h"
#include "tier/lane_trace.h"

namespace sluice {

std::string_view dtype_name(DType dtype);  // as --dtype takes it

nlohmann::ordered_json lanes_json(const LaneSeconds& seconds);  // by their names

nlohmann::ordered_json to_json(const Plan& plan);
nlohmann::ordered_json to_json(const NoPlanFits& failure);

nlohmann::ordered_json to_json(const Architecture& arch, const Schedule& schedule);
// Throws FormatError naming `where` and the key where it is not a schedule for this model.
Schedule schedule_from_json(const nlohmann::json& json, const Architecture& arch, const std::string& where);

}  // namespace sluice
