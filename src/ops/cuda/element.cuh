// SPDX-License-Identifier: Apache-2.0
// Elements of tensors in kernels: stored as float or bf16, computed as float. Rounding is to nearest, ties to even, as
// on the CPU.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>

#include "base/check.h"
#include "tensor/tensor_view.h"

namespace sluice::cuda {

using Bf16 = __nv_bfloat16;

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(Bf16 value) { return __bfloat162float(value); }

template <typename T>
__device__ inline T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline Bf16 from_float<Bf16>(float value) {
  return __float2bfloat16_rn(value);
}

// kVec elements that are loaded and stored at once.
template <typename T, int kVec>
struct alignas(sizeof(T) * kVec) Pack {
  T at[kVec];
};

// The most elements that a 16-byte access holds.
template <typename T>
constexpr int kFullVec = 16 / static_cast<int>(sizeof(T));

template <typename T>
T* data(const TensorView& view) {
  return reinterpret_cast<T*>(view.bytes().data());
}

inline bool is_aligned_for_vectors(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

// Calls use(element of the dtype): with_float_type(x.dtype(), [&](auto element) { using T = decltype(element); … }).
template <typename Use>
void with_float_type(DType dtype, const Use& use) {
  if (dtype == DType::kBF16) {
    use(Bf16{});
  } else {
    CHECK(dtype == DType::kF32, "f32 or bf16");
    use(float{});
  }
}

constexpr std::int64_t div_up(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }

}  // namespace sluice::cuda
