// SPDX-License-Identifier: Apache-2.0
#include "cli/spendable_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/units.h"

namespace sluice {
namespace {

// Peak resident memory minus budgets, tokenizer and slices in flight, measured: 16 MiB with a model of 2 M parameters,
// 33 MiB with one of 323 M, a third of it file pages. Stacks, kernel scratch and allocator overhead.
constexpr std::uint64_t kBesideBytes = 32 * kMiB;
// Address space of a thread's stack: the usual default of ulimit -s.
constexpr std::uint64_t kThreadAddressBytes = 8 * kMiB;
constexpr std::uint64_t kNumOtherThreads = 16;  // lanes, streams, I/O

}  // namespace

SpendableMemory spendable_memory(std::size_t num_threads) {
  const MemoryInfo info = read_memory_info();
  SpendableMemory memory{.limit = info.total_limit, .of_addresses = info.available_limit.starts_with("ulimit")};
  std::uint64_t beside_bytes = kBesideBytes;
  if (memory.of_addresses) beside_bytes += (num_threads + kNumOtherThreads) * kThreadAddressBytes;
  memory.bytes = info.available_bytes - std::min(beside_bytes, info.available_bytes / 2);
  if (memory.limit.empty()) memory.limit = info.available_limit;
  return memory;
}

void require_spendable(const SpendableMemory& memory, std::uint64_t needed_bytes, const std::string& what,
                       const std::string& advice) {
  if (memory.limit.empty() || needed_bytes <= memory.bytes) return;
  throw OutOfBudget(fmt::format("{} takes {} of host memory, and {} are to be had within the limit ({}): {}", what,
                                format_bytes(needed_bytes), format_bytes(memory.bytes), memory.limit, advice));
}

}  // namespace sluice
