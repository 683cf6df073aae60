// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/sgd.h"

#include "ops/cpu/items.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/sgd.cc"  // NOLINT
#include "hwy/foreach_target.h"              // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/master-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

void descend(const Sgd& args, std::size_t first, std::size_t count) {
  const F32Tag d;
  const F32 grad_scale = hn::Set(d, args.settings.grad_scale);
  const F32 learning_rate = hn::Set(d, static_cast<float>(args.settings.learning_rate));
  const F32 momentum = hn::Set(d, static_cast<float>(args.settings.momentum));
  const F32 weight_decay = hn::Set(d, static_cast<float>(args.settings.weight_decay));
  float* const velocity = args.velocity.bytes().empty() ? nullptr : args.velocity.as<float>().data() + first;
  with_types(args.weight, args.trailing, args.grad, first, [&](const auto& master, const auto* grad) HWY_ATTR {
    over_lanes(0, count, [&](std::size_t at, auto part) SLUICE_LANES {
      const F32 old = master.load(d, at, part);
      F32 direction = hn::MulAdd(weight_decay, old, hn::Mul(part.load(d, grad + at), grad_scale));
      if (velocity != nullptr) {
        direction = hn::MulAdd(momentum, part.load(d, velocity + at), direction);
        part.store(d, direction, velocity + at);
      }
      master.store(d, hn::NegMulAdd(learning_rate, direction, old), at, part);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(descend);

constexpr std::int64_t kItemElements = 1 << 15;

}  // namespace

void sgd(WorkerTeam& team, const Sgd& args) {
  const std::int64_t total = args.weight.shape().num_elements();
  over_items(team, total, kItemElements, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(descend)(args, static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  });
}

}  // namespace sluice::cpu
#endif
