// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/adamw.h"

#include <algorithm>
#include <vector>

#include "base/bf16.h"
#include "ops/adamw_factors.h"
#include "ops/cpu/adamw_blocks.h"
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

void adamw(WorkerTeam& team, std::span<const AdamW> parts) {
  struct Item {
    std::size_t part_idx;
    std::int64_t first, count;
  };
  std::vector<AdamWFactors> with;
  std::vector<Item> items;
  for (std::size_t part_idx = 0; part_idx < parts.size(); ++part_idx) {
    with.push_back(adamw_factors(parts[part_idx].settings));
    const std::int64_t total = parts[part_idx].weight.shape().num_elements();
    for (std::int64_t first = 0; first < total; first += kItemElements) {
      items.push_back({part_idx, first, std::min(kItemElements, total - first)});
    }
  }
  team.for_each(static_cast<std::int64_t>(items.size()), [&](std::int64_t item_idx, std::size_t) {
    const Item& item = items[static_cast<std::size_t>(item_idx)];
    update(parts[item.part_idx], with[item.part_idx], static_cast<std::size_t>(item.first),
           static_cast<std::size_t>(item.count));
  });
}

}  // namespace sluice::cpu
#endif
