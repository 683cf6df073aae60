// SPDX-License-Identifier: Apache-2.0
// The machine that a run of this configuration would have: this one, with the drives its state goes to.
#pragma once

#include <string>
#include <vector>

#include "bench/machine_bench.h"
#include "train/run_plan.h"

namespace sluice {

// Space on the drives counts what the run's own store holds there already. The directories of the store may be missing.
Machine machine_for(const TrainConfig& config, const Architecture& arch, const DeviceChoice& device,
                    const std::vector<std::string>& store_directories, Remeasure remeasure,
                    const ProgressSink& progress);

// Default memory budgets of a run on this machine. `beside_bytes`: host memory that the run takes outside the budgets.
TierBudgets budgets_here(const Machine& machine, std::size_t num_threads, std::uint64_t beside_bytes);

// Throws OutOfBudget if the plan takes more of this machine's memory than a container or ulimit allows.
void require_memory_here(const Plan& plan, std::size_t num_threads);

}  // namespace sluice
