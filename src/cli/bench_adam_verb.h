// SPDX-License-Identifier: Apache-2.0
// `sluice bench adam`.
#pragma once

#include <CLI/CLI.hpp>

namespace sluice {

void add_bench_adam_verb(CLI::App& bench);

}  // namespace sluice
