// SPDX-License-Identifier: Apache-2.0
// The memory that kernels use while they run: one piece for all streams of a device, taken from the arena at the start,
// so that budgets hold. Whoever takes it owns it until its kernels are launched; a stream that takes it after another
// waits on the card for that one's kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include <cuda_runtime_api.h>

#include "device/cuda/cuda_event.h"
#include "device/device.h"

namespace sluice::cuda {

// Scratch memory in use: launch every kernel that uses it before it dies.
class Scratch {
 public:
  Scratch(std::unique_lock<std::mutex> lock, std::span<std::byte> memory) : lock_(std::move(lock)), memory_(memory) {}

  std::span<std::byte> bytes() const { return memory_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(memory_.data());
  }

 private:
  std::unique_lock<std::mutex> lock_;
  std::span<std::byte> memory_;  // begins at a multiple of Device::kAlignment
};

class ScratchMemory {
 public:
  explicit ScratchMemory(Buffer memory) : memory_(std::move(memory)) {}

  std::uint64_t size_bytes() const { return memory_.size_bytes(); }
  Scratch take(cudaStream_t stream, std::uint64_t size_bytes, std::string_view who);
  // The stream is about to go, and has passed all its work.
  void forget(cudaStream_t stream);

 private:
  std::mutex mutex_;
  Buffer memory_;
  RawEvent handed_over_;
  cudaStream_t last_ = nullptr;
};

}  // namespace sluice::cuda
