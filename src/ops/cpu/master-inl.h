// SPDX-License-Identifier: Apache-2.0
// The two forms of a master weight, as ops/adamw.h describes them: vectors of it loaded and stored, whole or in part.
// Include as simd-inl.h is included.
#if defined(SLUICE_OPS_CPU_MASTER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPS_CPU_MASTER_INL_H_
#undef SLUICE_OPS_CPU_MASTER_INL_H_
#else
#define SLUICE_OPS_CPU_MASTER_INL_H_  // NOLINT
#endif

#include <cstddef>

#include "base/bf16.h"
#include "hwy/highway.h"
#include "ops/cpu/fetch.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/simd-inl.h"
#include "tensor/tensor_view.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

// The f32 master as it is.
struct WholeMaster {
  float* weight;

  HWY_INLINE void fetch(std::size_t at) const { fetch_run(weight + at); }
  template <class Part>
  HWY_INLINE F32 load(F32Tag d, std::size_t at, const Part& part) const {
    return part.load(d, weight + at);
  }
  template <class Part>
  HWY_INLINE void store(F32Tag d, F32 master, std::size_t at, const Part& part) const {
    part.store(d, master, weight + at);
  }
};

// The master cut in two: bits = (weight << 16) + trailing. A load of bf16 shifts by 16 already.
struct SplitMaster {
  BF16* weight;
  BF16* trailing;

  HWY_INLINE void fetch(std::size_t at) const {
    fetch_run(weight + at);
    fetch_run(trailing + at);
  }
  template <class Part>
  HWY_INLINE F32 load(F32Tag d, std::size_t at, const Part& part) const {
    const hn::RebindToSigned<F32Tag> d32;
    const auto upper = hn::BitCast(d32, part.load(d, weight + at));
    const auto lower = hn::ShiftRight<16>(hn::BitCast(d32, part.load(d, trailing + at)));  // with its sign
    return hn::BitCast(d, hn::Add(upper, lower));
  }
  template <class Part>
  HWY_INLINE void store(F32Tag d, F32 master, std::size_t at, const Part& part) const {
    const hn::RebindToUnsigned<F32Tag> d32;
    // Rounding up could carry a NaN into zero; this one has no bits that carry.
    const F32 plain_nan = hn::BitCast(d, hn::Set(d32, 0x7FC00000U));
    const auto bits = hn::BitCast(d32, hn::IfThenElse(hn::IsNaN(master), plain_nan, master));
    const auto upper = hn::ShiftRight<16>(hn::Add(bits, hn::Set(d32, 0x8000U)));
    part.store_bits(d, upper, weight + at);
    part.store_bits(d, bits, trailing + at);
  }
};

// work(master, grad) with the types that the views hold, from element `first` on.
template <typename Work>
void with_types(const TensorView& weight, const TensorView& trailing, const TensorView& grad, std::size_t first,
                const Work& work) {
  const auto with_grad = [&](const auto& master) {
    grad.dtype() == DType::kF32 ? work(master, grad.as<float>().data() + first)
                                : work(master, grad.as<BF16>().data() + first);
  };
  if (weight.dtype() == DType::kF32) {
    with_grad(WholeMaster{weight.as<float>().data() + first});
  } else {
    with_grad(SplitMaster{weight.as<BF16>().data() + first, trailing.as<BF16>().data() + first});
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
