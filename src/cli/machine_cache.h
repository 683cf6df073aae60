// SPDX-License-Identifier: Apache-2.0
// Where what was measured of this machine is kept between runs.
#pragma once

#include <string>

namespace sluice {

// In $XDG_CACHE_HOME, or else in ~/.cache; empty where there is no home.
std::string machine_cache_path();

}  // namespace sluice
