// SPDX-License-Identifier: Apache-2.0
// The step of AdamW on vectors, for moments that are kept in whatever way: those come as an object that loads and
// stores them. Include as simd-inl.h is included.
#if defined(SLUICE_OPS_CPU_ADAMW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPS_CPU_ADAMW_INL_H_
#undef SLUICE_OPS_CPU_ADAMW_INL_H_
#else
#define SLUICE_OPS_CPU_ADAMW_INL_H_  // NOLINT
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bf16.h"
#include "hwy/highway.h"
#include "ops/adamw_factors.h"
#include "ops/cpu/fetch.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/simd-inl.h"
#include "ops/cpu/stochastic-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

struct WholeMoments {
  float* m;
  float* v;

  HWY_INLINE void fetch(std::size_t at) const {
    fetch_run(m + at);
    fetch_run(v + at);
  }
  template <class Part>
  HWY_INLINE void store(F32Tag d, F32 new_m, F32 new_v, std::size_t at, const Part& part) const {
    part.store(d, new_m, m + at);
    part.store(d, new_v, v + at);
  }
};

struct RoundedMoments {
  BF16* m;
  BF16* v;
  RoundingKey key;
  std::uint32_t first_index;  // of element 0

  HWY_INLINE void fetch(std::size_t at) const {
    fetch_run(m + at);
    fetch_run(v + at);
  }
  template <class Part>
  HWY_INLINE void store(F32Tag d, F32 new_m, F32 new_v, std::size_t at, const Part& part) const {
    const U32 random = random_bits(key, first_index + static_cast<std::uint32_t>(at));
    part.store_bits(d, rounded_by(d, new_m, random), m + at);
    part.store_bits(d, rounded_by(d, new_v, hn::ShiftRight<16>(random)), v + at);
  }
};

template <class Master, typename Grad, class Moments>
void update_range(const AdamWFactors& with, const Master& master, const Grad* grad, const Moments& moments,
                  std::size_t count) {
  const F32Tag d;
  const F32 grad_scale = hn::Set(d, with.grad_scale);
  const F32 decay = hn::Set(d, with.decay);
  const F32 m_share = hn::Set(d, with.m_share);
  const F32 beta2 = hn::Set(d, with.beta2);
  const F32 v_share = hn::Set(d, with.v_share);
  const F32 inverse_correction = hn::Set(d, with.inverse_correction);
  const F32 eps = hn::Set(d, with.eps);
  const F32 step_size = hn::Set(d, with.step_size);
  const auto update = [&](std::size_t at, auto part) SLUICE_LANES {
    const F32 g = hn::Mul(part.load(d, grad + at), grad_scale);
    const F32 old_m = part.load(d, moments.m + at);
    const F32 new_m = hn::MulAdd(hn::Sub(g, old_m), m_share, old_m);
    // The share first: the square of a gradient of 1e20 is beyond a float, its share of v is not.
    const F32 new_v = hn::MulAdd(hn::Mul(g, v_share), g, hn::Mul(part.load(d, moments.v + at), beta2));
    const F32 denominator = hn::MulAdd(hn::Sqrt(new_v), inverse_correction, eps);
    const F32 decayed = hn::Mul(master.load(d, at, part), decay);
    master.store(d, hn::NegMulAdd(step_size, hn::Div(new_m, denominator), decayed), at, part);
    moments.store(d, new_m, new_v, at, part);
  };
  for (std::size_t first = 0; first < count; first += kFetchedRun) {
    const std::size_t ahead = first + kElementsAhead;
    if (ahead < count) {
      fetch_run(grad + ahead);
      master.fetch(ahead);
      moments.fetch(ahead);
    }
    over_lanes(first, std::min(count, first + kFetchedRun), update);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#endif
