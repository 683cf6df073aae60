// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over the threads of a group, in one fixed order: a group is a warp, or a whole block of kThreads. All
// threads of the group call, and all get the result.
#pragma once

#include <cstdint>

namespace sluice::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

// Threads that differ by one bit of their lane exchange values: each adds the same two, so all have the same bits.
template <typename T, typename Combine>
__device__ inline T over_warp(T value, const Combine& combine) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = combine(value, static_cast<T>(__shfl_xor_sync(kAllLanes, value, distance)));
  }
  return value;
}

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

// kThreads is a multiple of 32. Threads may go on at once to another reduction.
template <int kThreads, typename T, typename Combine>
__device__ inline T over_group(T value, const Combine& combine) {
  value = over_warp(value, combine);
  if constexpr (kThreads > kWarp) {
    __shared__ T of_warp[kThreads / kWarp];
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = of_warp[0];
#pragma unroll
    for (int warp = 1; warp < kThreads / kWarp; ++warp) value = combine(value, of_warp[warp]);
    __syncthreads();
  }
  return value;
}

template <int kThreads, typename T>
__device__ inline T sum_over_group(T value) {
  return over_group<kThreads>(value, Sum());
}

}  // namespace sluice::cuda
