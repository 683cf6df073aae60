// SPDX-License-Identifier: Apache-2.0
// Loads and stores that make floats of f32 and bf16 memory, for kernels that are compiled once for each instruction
// set. Include after hwy/highway.h, inside the file that foreach_target.h repeats; see elementwise.cc for the pattern.
// Tails are handled with a count: lanes beyond it are zero on load and untouched on store.
#if defined(SLUICE_OPS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPS_CPU_SIMD_INL_H_
#undef SLUICE_OPS_CPU_SIMD_INL_H_
#else
#define SLUICE_OPS_CPU_SIMD_INL_H_  // NOLINT
#endif

#include <cstddef>
#include <cstdint>

#include "base/bf16.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT
namespace hn = hwy::HWY_NAMESPACE;

using F32Tag = hn::ScalableTag<float>;
using F32 = hn::Vec<F32Tag>;

HWY_INLINE F32 load(F32Tag d, const float* from) { return hn::LoadU(d, from); }

HWY_INLINE F32 load(F32Tag d, const BF16* from) {
  const hn::Rebind<std::uint16_t, F32Tag> d16;
  const hn::RebindToUnsigned<F32Tag> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from)));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

HWY_INLINE void store(F32Tag d, F32 value, float* to) { hn::StoreU(value, d, to); }

// Rounds to nearest, ties to even, as to_bf16() does.
HWY_INLINE void store(F32Tag /*d*/, F32 value, BF16* to) {
  const hn::Rebind<std::uint16_t, F32Tag> d16;
  const hn::RebindToUnsigned<F32Tag> d32;
  const auto bits = hn::BitCast(d32, value);
  const auto lsb = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1U));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(lsb, hn::Set(d32, 0x7FFFU))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x40U));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(value));
  hn::StoreU(hn::TruncateTo(d16, hn::IfThenElse(is_nan, quiet, rounded)), d16, reinterpret_cast<std::uint16_t*>(to));
}

template <typename T>
HWY_INLINE F32 load_part(F32Tag d, const T* from, std::size_t count) {
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(float)] = {};
  for (std::size_t idx = 0; idx < count; ++idx) lanes[idx] = from[idx];
  return load(d, lanes);
}

template <typename T>
HWY_INLINE void store_part(F32Tag d, F32 value, T* to, std::size_t count) {
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(float)] = {};
  store(d, value, lanes);
  for (std::size_t idx = 0; idx < count; ++idx) to[idx] = lanes[idx];
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
