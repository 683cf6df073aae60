// SPDX-License-Identifier: Apache-2.0
// `sluice help`, `sluice completion` and `sluice man`: what the other verbs are, told to people and shells.
#pragma once

#include <CLI/CLI.hpp>

namespace sluice {

// After all other verbs. The app outlives the callbacks.
void add_help_verbs(CLI::App& app);

}  // namespace sluice
