// SPDX-License-Identifier: Apache-2.0
// The two forms of a master weight, as ops/adamw.h describes them, in kernels: packs of it loaded and stored.
#pragma once

#include <cstdint>

#include "ops/cuda/element.cuh"
#include "tensor/tensor_view.h"

namespace sluice::cuda {

// The f32 master as it is.
struct WholeMaster {
  float* weight;

  template <int kVec>
  __device__ Pack<float, kVec> load(std::int64_t at) const {
    return *reinterpret_cast<const Pack<float, kVec>*>(weight + at);
  }
  template <int kVec>
  __device__ void store(std::int64_t at, const Pack<float, kVec>& master) const {
    *reinterpret_cast<Pack<float, kVec>*>(weight + at) = master;
  }
};

// The master cut in two: bits = (weight << 16) + trailing, the latter with its sign.
struct SplitMaster {
  std::uint16_t* weight;
  std::uint16_t* trailing;

  template <int kVec>
  __device__ Pack<float, kVec> load(std::int64_t at) const {
    const auto upper = *reinterpret_cast<const Pack<std::uint16_t, kVec>*>(weight + at);
    const auto lower = *reinterpret_cast<const Pack<std::uint16_t, kVec>*>(trailing + at);
    Pack<float, kVec> master;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const auto offset = static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<std::int16_t>(lower.at[j])));
      master.at[j] = __uint_as_float((static_cast<std::uint32_t>(upper.at[j]) << 16) + offset);
    }
    return master;
  }
  template <int kVec>
  __device__ void store(std::int64_t at, const Pack<float, kVec>& master) const {
    Pack<std::uint16_t, kVec> upper;
    Pack<std::uint16_t, kVec> lower;
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      // Rounding up could carry a NaN into zero; this one has no bits that carry.
      const std::uint32_t bits = isnan(master.at[j]) ? 0x7FC00000U : __float_as_uint(master.at[j]);
      upper.at[j] = static_cast<std::uint16_t>((bits + 0x8000U) >> 16);
      lower.at[j] = static_cast<std::uint16_t>(bits);
    }
    *reinterpret_cast<Pack<std::uint16_t, kVec>*>(weight + at) = upper;
    *reinterpret_cast<Pack<std::uint16_t, kVec>*>(trailing + at) = lower;
  }
};

// work(master, grad) with the types that the views hold.
template <typename Work>
void with_master(const TensorView& weight, const TensorView& trailing, const TensorView& grad, const Work& work) {
  with_float_type(grad.dtype(), [&](auto element) {
    const auto* const gradients = data<decltype(element)>(grad);
    if (weight.dtype() == DType::kF32) {
      work(WholeMaster{data<float>(weight)}, gradients);
    } else {
      work(SplitMaster{data<std::uint16_t>(weight), data<std::uint16_t>(trailing)}, gradients);
    }
  });
}

}  // namespace sluice::cuda
