// SPDX-License-Identifier: Apache-2.0
// `sluice help`, `sluice completion` and `sluice man`: documentation generated from the parser for users and shells.
#pragma once

#include <CLI/CLI.hpp>

namespace sluice {

// Call after all other verbs were added. The app outlives the callbacks.
void add_help_verbs(CLI::App& app);

}  // namespace sluice
