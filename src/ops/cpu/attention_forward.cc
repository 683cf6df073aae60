// SPDX-License-Identifier: Apache-2.0
// Scores are held as (keys, rows): a row is a lane, so maxima and sums over keys need no step across lanes, and K and V
// are used as they lie; only the queries of a block are transposed, once.
#include <cmath>
#include <limits>

#include "base/bf16.h"
#include "base/units.h"
#include "ops/cpu/attention.h"
#include "ops/cpu/attention_blocks.h"
#include "ops/cpu/attention_few_rows.h"
#include "ops/cpu/attention_scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention_forward.cc"  // NOLINT
#include "hwy/foreach_target.h"                            // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/attention_scores-inl.h"
#include "ops/cpu/block_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT
namespace {

struct RunningSoftmax {
  HWY_ALIGN float max[kRowBlock];
  HWY_ALIGN float sum[kRowBlock];
};

enum class Mask { kNone, kBySight };

// Products become weights relative to the running maximum; what was summed before is scaled to the new one.
template <Mask kMask>
HWY_INLINE void soften(const ScoreMap& map, const RowSight& sight, std::size_t row, IndexRange keys,
                       const ForwardScratch& scratch, RunningSoftmax& softmax) {
  const F32Tag d;
  const I32Tag di;
  const auto first_key = hn::Load(di, sight.first_key + row);
  const auto last_key = hn::Load(di, sight.last_key + row);
  const F32 old_max = hn::Load(d, softmax.max + row);
  F32 max = old_max;
  float* at = scratch.scores() + row;
  for (std::int64_t key = keys.begin; key < keys.end; ++key, at += kRowBlock) {
    F32 score = map.score(hn::Load(d, at));
    if constexpr (kMask == Mask::kBySight) {
      const auto key_lanes = hn::Set(di, static_cast<std::int32_t>(key));
      const auto hidden =
          hn::Or(hn::VecFromMask(di, hn::Gt(first_key, key_lanes)), hn::VecFromMask(di, hn::Gt(key_lanes, last_key)));
      score = hn::IfThenElse(hn::RebindMask(d, hn::MaskFromVec(hidden)),
                             hn::Set(d, -std::numeric_limits<float>::infinity()), score);
    }
    hn::Store(score, d, at);
    max = hn::Max(max, score);
  }
  const F32 shrink = exp_lanes(hn::Sub(old_max, max));
  F32 sum = hn::Mul(hn::Load(d, softmax.sum + row), shrink);
  at = scratch.scores() + row;
  for (std::int64_t key = keys.begin; key < keys.end; ++key, at += kRowBlock) {
    const F32 weight = exp_lanes(hn::Sub(hn::Load(d, at), max));
    sum = hn::Add(sum, weight);
    hn::Store(weight, d, at);
  }
  hn::Store(max, d, softmax.max + row);
  hn::Store(sum, d, softmax.sum + row);
  float* out = scratch.out_t() + row;
  for (std::size_t idx = 0; idx < scratch.head_dim(); ++idx, out += kRowBlock) {
    hn::Store(hn::Mul(hn::Load(d, out), shrink), d, out);
  }
}

void attend_keys(const AttentionForward& args, const AttentionItem& item, const RowSight& sight, IndexRange keys,
                 const ForwardScratch& scratch, RunningSoftmax& softmax) {
  const F32Tag d;
  const auto num_rows = static_cast<std::size_t>(item.rows.count());
  const auto num_keys = static_cast<std::size_t>(keys.count());
  const ScoreMap map(args.shape);

  read_keys(args.k, item.group, keys, scratch.head_dim(), scratch.keys(), scratch.padded());
  multiply_blocks({.a = scratch.keys(),
                   .a_row = scratch.padded(),
                   .a_step = 1,
                   .b = scratch.q_t(),
                   .b_row = kRowBlock,
                   .c = scratch.scores(),
                   .c_row = kRowBlock,
                   .m = num_keys,
                   .n = num_rows,
                   .k = scratch.head_dim()});
  const bool masked = !item.group.all_see_all(item.rows, keys);
  for (std::size_t row = 0; row < num_rows; row += hn::Lanes(d)) {
    if (masked) {
      soften<Mask::kBySight>(map, sight, row, keys, scratch, softmax);
    } else {
      soften<Mask::kNone>(map, sight, row, keys, scratch, softmax);
    }
  }
  read_keys(args.v, item.group, keys, scratch.head_dim(), scratch.keys(), scratch.padded());
  multiply_blocks({.a = scratch.keys(),
                   .a_row = 1,
                   .a_step = scratch.padded(),
                   .b = scratch.scores(),
                   .b_row = kRowBlock,
                   .c = scratch.out_t(),
                   .c_row = kRowBlock,
                   .m = scratch.head_dim(),
                   .n = num_rows,
                   .k = num_keys,
                   .sum = Sum::kOntoC});
}

}  // namespace

void attention_forward_item(const AttentionForward& args, const AttentionItem& item, const ForwardScratch& scratch) {
  const RowGroup& group = item.group;
  const std::size_t head_dim = scratch.head_dim();
  const auto num_rows = static_cast<std::size_t>(item.rows.count());

  read_rows(args.q, group, item.rows, head_dim, scratch.keys(), scratch.padded());
  transpose_block(scratch.keys(), scratch.padded(), num_rows, head_dim, scratch.q_t(), kRowBlock);
  std::fill_n(scratch.out_t(), head_dim * kRowBlock, 0.0F);
  RunningSoftmax softmax;
  // Finite, so that rows which see none of the first blocks do not make NaN of infinity - infinity.
  std::fill_n(softmax.max, kRowBlock, std::numeric_limits<float>::lowest());
  std::fill_n(softmax.sum, kRowBlock, 0.0F);

  const RowSight sight(group, item.rows);
  for (std::int64_t first = item.keys.begin / kKeyBlock * kKeyBlock; first < item.keys.end; first += kKeyBlock) {
    const IndexRange keys{.begin = first, .end = std::min(first + kKeyBlock, item.keys.end)};
    attend_keys(args, item, sight, keys, scratch, softmax);
  }

  const HeadColumns out{.rows = args.out};
  float* const row_out = scratch.keys();
  for (std::size_t row = 0; row < num_rows; ++row) {
    const std::int64_t row_idx = item.rows.begin + static_cast<std::int64_t>(row);
    for (std::size_t idx = 0; idx < head_dim; ++idx) {
      row_out[idx] = scratch.out_t()[idx * kRowBlock + row] / softmax.sum[row];
    }
    write_head(out, group.token(row_idx), group.head(row_idx), head_dim, row_out);
    if (args.log_sum_exp.shape().rank() != 0) {
      const std::int64_t at = group.head(row_idx) * args.log_sum_exp.shape()[1] + group.token(row_idx);
      args.log_sum_exp.as<float>()[static_cast<std::size_t>(at)] = softmax.max[row] + std::log(softmax.sum[row]);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {
HWY_EXPORT(attention_forward_item);
}  // namespace

void attention_forward(WorkerTeam& team, const AttentionForward& args) {
  std::vector<RowGroup> blocks;
  std::vector<RowGroup> few;
  for (const RowGroup& group : row_groups(args.shape, args.segments)) {
    if (group.num_rows() > kFewRows) {
      blocks.push_back(group);
    } else if (group.num_rows() > 0) {
      few.push_back(group);
    }
  }
  if (!few.empty()) attend_few_rows(team, args, few);
  if (blocks.empty()) return;

  const std::vector<AttentionItem> items = row_items(blocks);
  std::vector<ForwardScratch> scratch;
  scratch.reserve(team.num_threads());
  for (std::size_t idx = 0; idx < team.num_threads(); ++idx) scratch.emplace_back(args.shape.head_dim);
  team.for_each(static_cast<std::int64_t>(items.size()), [&](std::int64_t item_idx, std::size_t worker_idx) {
    HWY_DYNAMIC_DISPATCH(attention_forward_item)(args, items[static_cast<std::size_t>(item_idx)], scratch[worker_idx]);
  });
}

}  // namespace sluice::cpu
#endif
