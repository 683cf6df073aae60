// SPDX-License-Identifier: Apache-2.0
// What every benchmark here does with its rounds.
#pragma once

#include <vector>

namespace sluice {

double median(std::vector<double> values);  // of at least one

}  // namespace sluice
