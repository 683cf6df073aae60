// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_scratch.h"

#include "base/page_memory.h"
#include "base/units.h"

namespace sluice::cpu {
namespace {

constexpr std::uint64_t kHugePageBytes = 2 * kMiB;  // what is read again and again should be on as few pages as can be

}  // namespace

std::span<std::byte> gemm_scratch(std::uint64_t size_bytes) {
  thread_local PageMemory memory;
  if (memory.size_bytes() < size_bytes) {
    memory = PageMemory();  // both at once would be too much
    memory = PageMemory(round_up(size_bytes, kHugePageBytes));
  }
  return memory.bytes();
}

}  // namespace sluice::cpu
