// SPDX-License-Identifier: Apache-2.0
// sluice train CONFIG and sluice resume RUN_DIR.
#pragma once

#include <CLI/CLI.hpp>

namespace sluice {

void add_train_verbs(CLI::App& app);

}  // namespace sluice
