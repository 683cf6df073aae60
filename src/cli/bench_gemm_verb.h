// SPDX-License-Identifier: Apache-2.0
// `sluice bench gemm`.
#pragma once

#include <CLI/CLI.hpp>

namespace sluice {

void add_bench_gemm_verb(CLI::App& bench);

}  // namespace sluice
