// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/adamw.h"

#include <algorithm>
#include <cmath>

#include "base/bf16.h"
#include "base/units.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/adamw.cc"  // NOLINT
#include "hwy/foreach_target.h"                // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

// The f32 master as it is.
struct WholeMaster {
  float* weight;

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

template <class Master, typename Grad>
void update_range(const AdamWFactors& with, const Master& master, const Grad* grad, float* m, float* v,
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
  over_lanes(0, count, [&](std::size_t at, auto part) SLUICE_LANES {
    const F32 g = hn::Mul(part.load(d, grad + at), grad_scale);
    const F32 old_m = part.load(d, m + at);
    const F32 new_m = hn::MulAdd(hn::Sub(g, old_m), m_share, old_m);
    const F32 new_v = hn::MulAdd(hn::Mul(g, g), v_share, hn::Mul(part.load(d, v + at), beta2));
    const F32 denominator = hn::Add(hn::Mul(hn::Sqrt(new_v), inverse_correction), eps);
    const F32 decayed = hn::Mul(master.load(d, at, part), decay);
    master.store(d, hn::NegMulAdd(step_size, hn::Div(new_m, denominator), decayed), at, part);
    part.store(d, new_m, m + at);
    part.store(d, new_v, v + at);
  });
}

template <typename Grad>
void update_typed(const AdamW& args, const AdamWFactors& with, std::size_t first, std::size_t count) {
  const Grad* grad = args.grad.as<Grad>().data() + first;
  float* m = args.m.as<float>().data() + first;
  float* v = args.v.as<float>().data() + first;
  if (args.weight.dtype() == DType::kF32) {
    update_range(with, WholeMaster{args.weight.as<float>().data() + first}, grad, m, v, count);
  } else {
    update_range(with, SplitMaster{args.weight.as<BF16>().data() + first, args.trailing.as<BF16>().data() + first},
                 grad, m, v, count);
  }
}

void update(const AdamW& args, const AdamWFactors& with, std::size_t first, std::size_t count) {
  args.grad.dtype() == DType::kF32 ? update_typed<float>(args, with, first, count)
                                   : update_typed<BF16>(args, with, first, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(update);

constexpr std::int64_t kItemElements = 1 << 15;

AdamWFactors factors_of(const AdamWSettings& settings) {
  const auto step = static_cast<double>(settings.step);
  return {.grad_scale = settings.grad_scale,
          .decay = static_cast<float>(1 - settings.learning_rate * settings.weight_decay),
          .m_share = static_cast<float>(1 - settings.beta1),
          .beta2 = static_cast<float>(settings.beta2),
          .v_share = static_cast<float>(1 - settings.beta2),
          .inverse_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(settings.beta2, step))),
          .eps = static_cast<float>(settings.eps),
          .step_size = static_cast<float>(settings.learning_rate / (1 - std::pow(settings.beta1, step)))};
}

}  // namespace

void adamw(WorkerTeam& team, const AdamW& args) {
  const AdamWFactors with = factors_of(args.settings);
  const std::int64_t total = args.weight.shape().num_elements();
  team.for_each(static_cast<std::int64_t>(div_ceil(total, kItemElements)), [&](std::int64_t item_idx, std::size_t) {
    const std::int64_t first = item_idx * kItemElements;
    HWY_DYNAMIC_DISPATCH(update)
    (args, with, static_cast<std::size_t>(first), static_cast<std::size_t>(std::min(kItemElements, total - first)));
  });
}

}  // namespace sluice::cpu
#endif
