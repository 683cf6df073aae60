// SPDX-License-Identifier: Apache-2.0
// Loops over floats a vector at a time, whose body is written once for whole vectors and for the rest at the end.
// Bodies are lambdas marked SLUICE_LANES: they take the index of the first element and `part`, which loads and stores.
// Include as simd-inl.h is included.
#if defined(SLUICE_OPS_CPU_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPS_CPU_LOOP_INL_H_
#undef SLUICE_OPS_CPU_LOOP_INL_H_
#else
#define SLUICE_OPS_CPU_LOOP_INL_H_  // NOLINT
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bf16.h"
#include "hwy/highway.h"
#include "ops/cpu/simd-inl.h"

#ifndef SLUICE_LANES
#define SLUICE_LANES HWY_ATTR __attribute__((always_inline))
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

using U32 = hn::Vec<hn::RebindToUnsigned<F32Tag>>;

// The lower 16 bits of every lane.
HWY_INLINE void store_bits(F32Tag /*d*/, U32 bits, BF16* to) {
  const hn::Rebind<std::uint16_t, F32Tag> d16;
  hn::StoreU(hn::TruncateTo(d16, bits), d16, reinterpret_cast<std::uint16_t*>(to));
}

struct WholePart {
  template <typename T>
  HWY_INLINE F32 load(F32Tag d, const T* from) const {
    return HWY_NAMESPACE::load(d, from);
  }
  template <typename T>
  HWY_INLINE void store(F32Tag d, F32 value, T* to) const {
    HWY_NAMESPACE::store(d, value, to);
  }
  HWY_INLINE void store_bits(F32Tag d, U32 bits, BF16* to) const { HWY_NAMESPACE::store_bits(d, bits, to); }
  HWY_INLINE F32 keep(F32Tag /*d*/, F32 value, F32 /*otherwise*/) const { return value; }
};

struct RestPart {
  std::size_t count;

  template <typename T>
  HWY_INLINE F32 load(F32Tag d, const T* from) const {
    return load_part(d, from, count);
  }
  template <typename T>
  HWY_INLINE void store(F32Tag d, F32 value, T* to) const {
    store_part(d, value, to, count);
  }
  HWY_INLINE void store_bits(F32Tag d, U32 bits, BF16* to) const {
    HWY_ALIGN BF16 lanes[HWY_MAX_BYTES / sizeof(float)] = {};
    HWY_NAMESPACE::store_bits(d, bits, lanes);
    for (std::size_t idx = 0; idx < count; ++idx) to[idx] = lanes[idx];
  }
  // `value` in lanes that are in use.
  HWY_INLINE F32 keep(F32Tag d, F32 value, F32 otherwise) const {
    return hn::IfThenElse(hn::FirstN(d, count), value, otherwise);
  }
};

// body(at, part) for all of [first, end).
template <typename Body>
HWY_INLINE void over_lanes(std::size_t first, std::size_t end, const Body& body) {
  const std::size_t lanes = hn::Lanes(F32Tag());
  std::size_t at = first;
  for (; at + lanes <= end; at += lanes) body(at, WholePart());
  if (at < end) body(at, RestPart{end - at});
}

// The sum of what body(at, part) gives: short runs in float, those in double. A run's sum is off by some units in the
// last place, so the whole is too, however long it is.
template <typename Body>
HWY_INLINE double sum_over_lanes(std::size_t count, const Body& body) {
  constexpr std::size_t kRun = 1024;
  const F32Tag d;
  double total = 0;
  for (std::size_t first = 0; first < count; first += kRun) {
    F32 sum = hn::Zero(d);
    over_lanes(first, std::min(count, first + kRun), [&](std::size_t at, auto part) SLUICE_LANES {
      sum = hn::Add(sum, part.keep(d, body(at, part), hn::Zero(d)));
    });
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
