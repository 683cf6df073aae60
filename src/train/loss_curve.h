// SPDX-License-Identifier: Apache-2.0
// A run's losses as a picture (SVG) that any browser shows: the loss of each logged step as a thin line, a smoothed one
// over it, evaluations as points. Its size is bounded however long the run was. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/trainer_state.h"

namespace sluice {

std::string loss_curve_svg(const std::vector<HistoryEntry>& history, std::string_view title);

}  // namespace sluice
