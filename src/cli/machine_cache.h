// SPDX-License-Identifier: Apache-2.0
// Where what was measured of this machine is kept between runs.
#pragma once

#include <string>

namespace sluice {

// A path in $XDG_CACHE_HOME, or else in ~/.cache; empty if there is no home.
std::string machine_cache_path();

}  // namespace sluice
