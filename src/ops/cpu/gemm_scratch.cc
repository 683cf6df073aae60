// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_scratch.h"

#include "base/page_memory.h"
#include "base/units.h"

namespace sluice::cpu {

std::span<std::byte> gemm_scratch(std::uint64_t size_bytes) {
  thread_local PageMemory memory;
  if (memory.size_bytes() < size_bytes) {
    memory = PageMemory();  // both at once would be too much
    // Whole huge pages: what is read again and again should lie on as few as can be.
    memory = PageMemory(round_up(size_bytes, kHugePageBytes));
  }
  return memory.bytes();
}

}  // namespace sluice::cpu
