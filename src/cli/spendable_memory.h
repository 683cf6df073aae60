// SPDX-License-Identifier: Apache-2.0
// How much host memory a verb may plan with: what is to be had within every limit, less what the process takes beside
// its budgets. Beyond the limit of a container there is no failure to report: the kernel kills the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice {

struct SpendableMemory {
  std::uint64_t bytes = 0;
  std::string limit;          // of a container or of ulimit, where one is less than the machine's memory; else empty
  bool of_addresses = false;  // the limit counts addresses: memory that is reserved and never touched counts
};
SpendableMemory spendable_memory(std::size_t num_threads);

// Throws OutOfBudget where a limit would end the process, with what to do about it. `what` begins the sentence.
void require_spendable(const SpendableMemory& memory, std::uint64_t needed_bytes, const std::string& what,
                       const std::string& advice);

}  // namespace sluice
