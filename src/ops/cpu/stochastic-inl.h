// SPDX-License-Identifier: Apache-2.0
// Random bits that depend on a key and an element's index alone, and rounding to bf16 by them. Include as simd-inl.h is
// included.
#if defined(SLUICE_OPS_CPU_STOCHASTIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPS_CPU_STOCHASTIC_INL_H_
#undef SLUICE_OPS_CPU_STOCHASTIC_INL_H_
#else
#define SLUICE_OPS_CPU_STOCHASTIC_INL_H_  // NOLINT
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/rounding_key.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

using U32Tag = hn::RebindToUnsigned<F32Tag>;

// 32 bits for each lane, of elements index, index + 1, ... Two rounds of xor-shift and multiply make every bit of the
// index reach every bit of the result (the multipliers are those of the lowbias32 search); a key that comes between
// them keeps two keys from giving one sequence shifted.
HWY_INLINE U32 random_bits(RoundingKey key, std::uint32_t index) {
  const U32Tag d;
  U32 x = hn::Xor(hn::Iota(d, index), hn::Set(d, key.before));
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  x = hn::Mul(x, hn::Set(d, 0x7FEB352DU));
  x = hn::Add(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(d, key.between));
  x = hn::Mul(x, hn::Set(d, 0x846CA68BU));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

// The bits of a bf16 in the lower half of each lane: up in magnitude with the odds of the bits that are cut off, which
// the lower 16 of `random` decide. What a bf16 can hold stays as it is; NaN stays NaN.
HWY_INLINE U32 rounded_by(F32Tag /*d*/, F32 value, U32 random) {
  const U32Tag d32;
  const U32 bits = hn::BitCast(d32, value);
  const U32 rounded = hn::ShiftRight<16>(hn::Add(bits, hn::And(random, hn::Set(d32, 0xFFFFU))));
  const U32 quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x40U));
  return hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(value)), quiet, rounded);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
