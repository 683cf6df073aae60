// SPDX-License-Identifier: Apache-2.0
// Blocks of floats as 8-bit dynamic codes times the largest magnitude in the block (absmax). Include as simd-inl.h is
// included.
#if defined(SLUICE_OPS_CPU_BLOCK_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPS_CPU_BLOCK_CODES_INL_H_
#undef SLUICE_OPS_CPU_BLOCK_CODES_INL_H_
#else
#define SLUICE_OPS_CPU_BLOCK_CODES_INL_H_  // NOLINT
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "ops/cpu/dynamic_code-inl.h"
#include "ops/cpu/lane_table-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

inline constexpr std::size_t kCodeBlock = 256;

// The largest magnitude; NaN where there is one: as bits, it is beyond every number.
HWY_INLINE float absmax_of(const float* values, std::size_t count) {
  const F32Tag d;
  const I32Tag di;
  I32 largest = hn::Zero(di);
  for (std::size_t at = 0; at < count; at += hn::Lanes(d)) {
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(hn::Load(d, values + at))));
  }
  return hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, largest)));
}

// What makes numbers up to absmax numbers up to 1, in two factors: the inverse of a tiny absmax is beyond a float.
struct Normaliser {
  float first;
  float second;
};
HWY_INLINE Normaliser normaliser_of(float absmax) {
  const float first = absmax < 0x1p-60F ? 0x1p80F : 1.0F;
  return {first, absmax == 0 ? 0.0F : 1 / (absmax * first)};
}

// values[i] = absmax * the value of codes[i], for a whole block; `values` is aligned.
template <CodeRange kRange>
HWY_INLINE void decode_block(const DynamicCode<kRange>& code, const std::uint8_t* codes, float absmax, float* values) {
  const F32Tag d;
  const I32Tag di;
  const hn::Rebind<std::uint8_t, F32Tag> d8;
  const F32 scale = hn::Set(d, absmax);
  for (std::size_t at = 0; at < kCodeBlock; at += hn::Lanes(d)) {
    hn::Store(code.decode(d, hn::PromoteTo(di, hn::LoadU(d8, codes + at)), scale), d, values + at);
  }
}

// Returns the absmax. Of a block that is not full, the values beyond are 0.
template <CodeRange kRange>
HWY_INLINE float encode_block(const DynamicCode<kRange>& code, const float* values, std::uint8_t* codes) {
  const F32Tag d;
  const hn::Rebind<std::uint8_t, F32Tag> d8;
  const float absmax = absmax_of(values, kCodeBlock);
  const Normaliser normaliser = normaliser_of(absmax);
  const F32 first = hn::Set(d, normaliser.first);
  const F32 second = hn::Set(d, normaliser.second);
  for (std::size_t at = 0; at < kCodeBlock; at += hn::Lanes(d)) {
    const F32 value = hn::Load(d, values + at);
    const F32 part = hn::Mul(hn::Mul(value, first), second);
    const I32 found = code.encode(d, part, hn::Gt(value, hn::Zero(d)));
    hn::StoreU(hn::TruncateTo(d8, hn::BitCast(hn::RebindToUnsigned<F32Tag>(), found)), d8, codes + at);
  }
  return absmax;
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
