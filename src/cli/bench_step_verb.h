// SPDX-License-Identifier: Apache-2.0
// `sluice bench step`: whole training steps, lane by lane, beside what was planned.
#pragma once

#include <CLI/CLI.hpp>

namespace sluice {

void add_bench_step_verb(CLI::App& bench);

}  // namespace sluice
