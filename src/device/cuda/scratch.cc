// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/scratch.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/units.h"
#include "device/cuda/cuda_error.h"

namespace sluice::cuda {

Scratch ScratchMemory::take(cudaStream_t stream, std::uint64_t size_bytes, std::string_view who) {
  if (size_bytes > memory_.size_bytes()) {
    throw OutOfBudget(fmt::format("{} needs {} of scratch memory on the card, but only {} is set aside: raise it", who,
                                  format_bytes(size_bytes), format_bytes(memory_.size_bytes())));
  }
  std::unique_lock lock(mutex_);
  if (last_ != nullptr && last_ != stream) {
    handed_over_.record(last_);
    require(cudaStreamWaitEvent(stream, handed_over_.get(), 0), "cudaStreamWaitEvent for scratch memory");
  }
  last_ = stream;
  return {std::move(lock), memory_.bytes()};
}

void ScratchMemory::forget(cudaStream_t stream) {
  const std::scoped_lock lock(mutex_);
  if (last_ == stream) last_ = nullptr;
}

}  // namespace sluice::cuda
