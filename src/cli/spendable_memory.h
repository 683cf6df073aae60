// SPDX-License-Identifier: Apache-2.0
// Host memory that a verb may plan with: the memory available within every limit, minus the process's overhead outside
// its budgets. Exceeding a container's limit cannot be reported: the kernel kills the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice {

struct SpendableMemory {
  std::uint64_t bytes = 0;
  std::string limit;          // the container's or ulimit's limit, if lower than the machine's memory; else empty
  bool of_addresses = false;  // the limit is on address space: reserved, untouched memory counts
};
SpendableMemory spendable_memory(std::size_t num_threads);

// Throws OutOfBudget with a remedy if a limit would end the process. `what` begins the sentence.
void require_spendable(const SpendableMemory& memory, std::uint64_t needed_bytes, const std::string& what,
                       const std::string& advice);

}  // namespace sluice
