// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/adamw.h"

#include <algorithm>
#include <cmath>

#include "base/bf16.h"
#include "ops/cpu/adamw_blocks.h"
#include "ops/cpu/items.h"
#include "ops/cpu/rounding_key.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/adamw.cc"  // NOLINT
#include "hwy/foreach_target.h"                // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/adamw-inl.h"
#include "ops/cpu/master-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

void update_whole(const AdamW& args, const AdamWFactors& with, std::size_t first, std::size_t count) {
  const WholeMoments moments{args.m.as<float>().data() + first, args.v.as<float>().data() + first};
  with_types(args.weight, args.trailing, args.grad, first,
             [&](const auto& master, const auto* grad) HWY_ATTR { update_range(with, master, grad, moments, count); });
}

// One key for all: the elements do not cross a multiple of 2^32.
void update_rounded(const AdamW& args, const AdamWFactors& with, std::size_t first, std::size_t count) {
  const auto index = static_cast<std::uint64_t>(args.first_element) + first;
  const RoundingKey key = rounding_key(args.seed, args.settings.step, static_cast<std::uint32_t>(index >> 32));
  const RoundedMoments moments{args.m.as<BF16>().data() + first, args.v.as<BF16>().data() + first, key,
                               static_cast<std::uint32_t>(index)};
  with_types(args.weight, args.trailing, args.grad, first,
             [&](const auto& master, const auto* grad) HWY_ATTR { update_range(with, master, grad, moments, count); });
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(update_whole);
HWY_EXPORT(update_rounded);

// Whole blocks of 8-bit moments.
constexpr std::int64_t kItemElements = 1 << 15;
static_assert(kItemElements % kMomentBlock == 0);

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

void update(const AdamW& args, const AdamWFactors& with, std::size_t first, std::size_t count) {
  switch (args.m.dtype()) {
    case DType::kF32:
      HWY_DYNAMIC_DISPATCH(update_whole)(args, with, first, count);
      return;
    case DType::kBF16: {
      const std::uint64_t index = static_cast<std::uint64_t>(args.first_element) + first;
      const std::size_t with_one_key = std::min<std::uint64_t>(count, (1ULL << 32) - (index & 0xFFFFFFFFU));
      HWY_DYNAMIC_DISPATCH(update_rounded)(args, with, first, with_one_key);
      if (with_one_key < count) {
        HWY_DYNAMIC_DISPATCH(update_rounded)(args, with, first + with_one_key, count - with_one_key);
      }
      return;
    }
    default:
      adamw_blocks(args, with, first, count);
  }
}

}  // namespace

void adamw(WorkerTeam& team, const AdamW& args) {
  const AdamWFactors with = factors_of(args.settings);
  const std::int64_t total = args.weight.shape().num_elements();
  over_items(team, total, kItemElements, [&](std::int64_t first, std::int64_t count) {
    update(args, with, static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  });
}

}  // namespace sluice::cpu
#endif
