// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/attention_few_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/units.h"
#include "ops/cpu/attention_scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention_few_rows.cc"  // NOLINT
#include "hwy/foreach_target.h"                             // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/attention_scores-inl.h"
#include "ops/cpu/block_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT
namespace {

// One key's products with kRows rows of q, to scores kPartKeys apart.
template <std::size_t kRows>
HWY_INLINE void products_of_key(const float* q, const float* k, std::size_t padded, float* scores) {
  const F32Tag d;
  F32 sums[kRows];
  HWY_UNROLL(4)
  for (std::size_t row = 0; row < kRows; ++row) sums[row] = hn::Zero(d);
  for (std::size_t at = 0; at < padded; at += hn::Lanes(d)) {
    const F32 k_lanes = hn::Load(d, k + at);
    HWY_UNROLL(4)
    for (std::size_t row = 0; row < kRows; ++row) {
      sums[row] = hn::MulAdd(hn::Load(d, q + row * padded + at), k_lanes, sums[row]);
    }
  }
  HWY_UNROLL(4)
  for (std::size_t row = 0; row < kRows; ++row) {
    scores[row * kPartKeys] = hn::GetLane(hn::SumOfLanes(d, sums[row]));
  }
}

// Products of one row become weights relative to their maximum. `seen` are the keys the row sees, counted from the
// first score; the others weigh nothing.
HWY_INLINE void soften_row(const ScoreMap& map, IndexRange seen, std::int64_t count, float* scores, float* max_out,
                           float* sum_out) {
  const F32Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t padded_count = static_cast<std::int64_t>(round_up(count, lanes));
  for (std::int64_t at = 0; at < padded_count; at += lanes) {
    hn::Store(map.score(hn::Load(d, scores + at)), d, scores + at);
  }
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  std::fill(scores, scores + seen.begin, kHidden);
  std::fill(scores + seen.end, scores + padded_count, kHidden);
  F32 max_lanes = hn::Set(d, std::numeric_limits<float>::lowest());
  for (std::int64_t at = 0; at < padded_count; at += lanes) max_lanes = hn::Max(max_lanes, hn::Load(d, scores + at));
  const F32 max = hn::MaxOfLanes(d, max_lanes);
  F32 sum = hn::Zero(d);
  for (std::int64_t at = 0; at < padded_count; at += lanes) {
    const F32 weight = exp_lanes(hn::Sub(hn::Load(d, scores + at), max));
    sum = hn::Add(sum, weight);
    hn::Store(weight, d, scores + at);
  }
  *max_out = hn::GetLane(max);
  *sum_out = hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace

void attention_few_rows_part(const AttentionForward& args, const PartOfKeys& part, const FewRowsScratch& scratch) {
  const RowGroup& group = *part.group;
  const auto head_dim = static_cast<std::size_t>(args.shape.head_dim);
  const std::size_t padded = round_up(head_dim, kMaxLanes);
  const std::int64_t num_rows = group.num_rows();
  const std::int64_t num_keys = part.keys.count();

  read_rows(args.q, group, {.begin = 0, .end = num_rows}, head_dim, scratch.rows, padded);
  for (std::int64_t first = 0; first < num_keys; first += kPartBlock) {
    const std::int64_t count = std::min(kPartBlock, num_keys - first);
    const std::int64_t first_key = part.keys.begin + first;
    read_keys(args.k, group, {.begin = first_key, .end = first_key + count}, head_dim, scratch.keys, padded);
    for (std::int64_t key = 0; key < count; ++key) {
      const float* const k = scratch.keys + static_cast<std::size_t>(key) * padded;
      const float* q = scratch.rows;
      float* scores = scratch.scores + first + key;
      std::int64_t row = 0;
      for (; row + 4 <= num_rows; row += 4, q += 4 * padded, scores += 4 * kPartKeys) {
        products_of_key<4>(q, k, padded, scores);
      }
      for (; row < num_rows; ++row, q += padded, scores += kPartKeys) products_of_key<1>(q, k, padded, scores);
    }
  }
  const ScoreMap map(args.shape);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const std::int64_t first_seen = std::clamp<std::int64_t>(group.first_key(row) - part.keys.begin, 0, num_keys);
    const std::int64_t past_seen =
        std::clamp<std::int64_t>(group.last_key(row) + 1 - part.keys.begin, first_seen, num_keys);
    soften_row(map, {.begin = first_seen, .end = past_seen}, num_keys, scratch.scores + row * kPartKeys, part.max + row,
               part.sum + row);
  }
  for (std::int64_t first = 0; first < num_keys; first += kPartBlock) {
    const std::int64_t count = std::min(kPartBlock, num_keys - first);
    const std::int64_t first_key = part.keys.begin + first;
    read_keys(args.v, group, {.begin = first_key, .end = first_key + count}, head_dim, scratch.keys, padded);
    multiply_blocks({.a = scratch.scores + first,
                     .a_row = kPartKeys,
                     .a_step = 1,
                     .b = scratch.keys,
                     .b_row = padded,
                     .c = part.out,
                     .c_row = padded,
                     .m = static_cast<std::size_t>(num_rows),
                     .n = head_dim,
                     .k = static_cast<std::size_t>(count),
                     .sum = first == 0 ? Sum::kFromZero : Sum::kOntoC});
  }
}

void attention_few_rows_merge(const AttentionForward& args, const PartOfKeys* parts, std::size_t num_parts,
                              const FewRowsScratch& scratch) {
  const F32Tag d;
  const RowGroup& group = *parts[0].group;
  const auto head_dim = static_cast<std::size_t>(args.shape.head_dim);
  const std::size_t padded = round_up(head_dim, kMaxLanes);
  for (std::int64_t row = 0; row < group.num_rows(); ++row) {
    float max = std::numeric_limits<float>::lowest();
    for (std::size_t idx = 0; idx < num_parts; ++idx) max = std::max(max, parts[idx].max[row]);
    float sum = 0;
    std::fill_n(scratch.rows, padded, 0.0F);
    for (std::size_t idx = 0; idx < num_parts; ++idx) {
      const float share = std::exp(parts[idx].max[row] - max);
      sum += share * parts[idx].sum[row];
      const float* const out = parts[idx].out + static_cast<std::size_t>(row) * padded;
      for (std::size_t at = 0; at < padded; at += hn::Lanes(d)) {
        const F32 merged = hn::MulAdd(hn::Set(d, share), hn::LoadU(d, out + at), hn::Load(d, scratch.rows + at));
        hn::Store(merged, d, scratch.rows + at);
      }
    }
    for (std::size_t at = 0; at < padded; at += hn::Lanes(d)) {
      hn::Store(hn::Div(hn::Load(d, scratch.rows + at), hn::Set(d, sum)), d, scratch.rows + at);
    }
    write_head({.rows = args.out}, group.token(row), group.head(row), head_dim, scratch.rows);
    if (args.log_sum_exp.shape().rank() != 0) {
      const std::int64_t at = group.head(row) * args.log_sum_exp.shape()[1] + group.token(row);
      args.log_sum_exp.as<float>()[static_cast<std::size_t>(at)] = max + std::log(sum);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {
HWY_EXPORT(attention_few_rows_part);
HWY_EXPORT(attention_few_rows_merge);
}  // namespace

void attend_few_rows(WorkerTeam& team, const AttentionForward& args, const std::vector<RowGroup>& groups) {
  const std::size_t padded = round_up(static_cast<std::uint64_t>(args.shape.head_dim), kMaxLanes);
  std::vector<PartOfKeys> parts;
  std::vector<std::size_t> first_part;  // of each group, and past the last
  std::size_t num_result_rows = 0;
  for (const RowGroup& group : groups) {
    first_part.push_back(parts.size());
    const IndexRange seen = group.keys_seen_by({.begin = 0, .end = group.num_rows()});
    for (std::int64_t first = seen.begin; first < seen.end; first += kPartKeys) {
      parts.push_back({.group = &group, .keys = {.begin = first, .end = std::min(first + kPartKeys, seen.end)}});
      num_result_rows += static_cast<std::size_t>(group.num_rows());
    }
  }
  first_part.push_back(parts.size());

  const auto results = allocate_floats(num_result_rows * (padded + 2));
  float* at = results.get();
  for (PartOfKeys& part : parts) {
    const auto num_rows = static_cast<std::size_t>(part.group->num_rows());
    part.out = at;
    part.max = part.out + num_rows * padded;
    part.sum = part.max + num_rows;
    at = part.sum + num_rows;
  }
  std::vector<FewRowsScratch> scratch;
  scratch.reserve(team.num_threads());
  for (std::size_t idx = 0; idx < team.num_threads(); ++idx) scratch.emplace_back(padded);

  // In the order of memory: heads lie side by side in a row of the cache, so its pages are visited once.
  std::vector<const PartOfKeys*> order;
  order.reserve(parts.size());
  for (const PartOfKeys& part : parts) order.push_back(&part);
  std::stable_sort(order.begin(), order.end(), [](const PartOfKeys* a, const PartOfKeys* b) {
    return a->group->segment.k_first + a->keys.begin < b->group->segment.k_first + b->keys.begin;
  });
  team.for_each(static_cast<std::int64_t>(order.size()), [&](std::int64_t idx, std::size_t worker_idx) {
    HWY_DYNAMIC_DISPATCH(attention_few_rows_part)(args, *order[static_cast<std::size_t>(idx)], scratch[worker_idx]);
  });
  team.for_each(static_cast<std::int64_t>(groups.size()), [&](std::int64_t group_idx, std::size_t worker_idx) {
    const std::size_t first = first_part[static_cast<std::size_t>(group_idx)];
    const std::size_t past = first_part[static_cast<std::size_t>(group_idx) + 1];
    HWY_DYNAMIC_DISPATCH(attention_few_rows_merge)(args, &parts[first], past - first, scratch[worker_idx]);
  });
}

}  // namespace sluice::cpu
#endif
