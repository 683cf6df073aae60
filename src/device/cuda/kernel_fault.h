// SPDX-License-Identifier: Apache-2.0
// How a kernel says that it met data it must not compute with, such as a token id beyond the vocabulary: it leaves that
// element out and writes down the fault, in host memory. Whoever waits for an event after it gets the exception.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define SLUICE_ON_DEVICE __device__
#else
#define SLUICE_ON_DEVICE
#endif

namespace sluice::cuda {

enum class FaultKind : std::int32_t { kNone, kTokenId, kLabel };

struct KernelFault {
  std::uint64_t sequence = 0;  // of the work; 0: no fault
  FaultKind kind = FaultKind::kNone;
  std::int32_t position = 0;  // of the element
  std::int64_t value = 0;     // of the element
  std::int64_t bound = 0;     // that it should be below
};

struct FaultSlot {
  KernelFault* fault = nullptr;
  std::uint64_t sequence = 0;

  // The first work that faults is what is told of; of its elements, any one.
  SLUICE_ON_DEVICE void write(FaultKind kind, std::int32_t position, std::int64_t value, std::int64_t bound) const {
    volatile KernelFault* const at = fault;
    if (at->sequence != 0 && at->sequence != sequence) return;
    at->kind = kind;
    at->position = position;
    at->value = value;
    at->bound = bound;
    at->sequence = sequence;
  }
};

}  // namespace sluice::cuda
