// SPDX-License-Identifier: Apache-2.0
// Kernel launches: launch<kernel, threads per block>(stream, blocks, arguments...). The launch configuration is part of
// the type, so every compiled launch is registered in kernel_launches().
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include "base/check.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_stream.h"
#include "ops/cuda/kernel_launches.h"

namespace sluice::cuda {

template <auto* kKernel, int kThreads, int kMostDynamicBytes, int kLeastBytes, int kBelowBytes>
class Launch {
 public:
  template <typename... Args>
  static void put(cudaStream_t stream, dim3 num_blocks, int dynamic_bytes, const Args&... args) {
    static_cast<void>(&kListed);  // instantiates the static member, which registers the launch
    CHECK(dynamic_bytes <= kMostDynamicBytes, "the launch takes more shared memory than it is registered with");
    if constexpr (kMostDynamicBytes > kWithoutAsking) {
      if (dynamic_bytes > kWithoutAsking) {
        require(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostDynamicBytes),
                "cudaFuncSetAttribute of shared memory");
      }
    }
    kKernel<<<num_blocks, kThreads, static_cast<std::size_t>(dynamic_bytes), stream>>>(args...);
  }

 private:
  static constexpr int kWithoutAsking = 48 * 1024;

  inline static const ListedLaunch kListed{{.kernel = reinterpret_cast<const void*>(kKernel),
                                            .num_threads = kThreads,
                                            .most_dynamic_bytes = kMostDynamicBytes,
                                            .cards = {.least_bytes = kLeastBytes, .below_bytes = kBelowBytes}}};
};

template <auto* kKernel, int kThreads, typename... Args>
void launch(cudaStream_t stream, dim3 num_blocks, const Args&... args) {
  constexpr CardRange kAll;
  Launch<kKernel, kThreads, 0, kAll.least_bytes, kAll.below_bytes>::put(stream, num_blocks, 0, args...);
}
template <auto* kKernel, int kThreads, typename... Args>
void launch(CudaStream& stream, dim3 num_blocks, const Args&... args) {
  launch<kKernel, kThreads>(stream.handle(), num_blocks, args...);
}

// Launches with kDynamicBytes of dynamic shared memory, on the cards of Cut::cards(). A Cut describes how work is split
// into blocks: kThreads per block, and the cards that it is for.
template <auto* kKernel, typename Cut, int kDynamicBytes, typename... Args>
void launch_cut(CudaStream& stream, dim3 num_blocks, const Args&... args) {
  constexpr CardRange kCards = Cut::cards();
  Launch<kKernel, Cut::kThreads, kDynamicBytes, kCards.least_bytes, kCards.below_bytes>::put(
      stream.handle(), num_blocks, kDynamicBytes, args...);
}

// Launches with `dynamic_bytes` of dynamic shared memory, at most kMostDynamicBytes.
template <auto* kKernel, int kThreads, int kMostDynamicBytes, typename... Args>
void launch_sized(CudaStream& stream, dim3 num_blocks, int dynamic_bytes, const Args&... args) {
  constexpr CardRange kAll;
  Launch<kKernel, kThreads, kMostDynamicBytes, kAll.least_bytes, kAll.below_bytes>::put(stream.handle(), num_blocks,
                                                                                        dynamic_bytes, args...);
}

}  // namespace sluice::cuda
