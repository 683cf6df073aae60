// SPDX-License-Identifier: Apache-2.0
// Two passes that share nothing but what they read, so that every gradient has one writer: dQ by blocks of rows, dK and
// dV by blocks of keys. Each recomputes the weights from the scores and the log-sum-exp. With P the weights, dP = dO
// V^T and delta = rowsum(dO * O): dS = P (dP - delta), dQ = dS K, dK = dS^T Q, dV = P^T dO.
#include <algorithm>

#include "base/bf16.h"
#include "base/units.h"
#include "ops/cpu/attention.h"
#include "ops/cpu/attention_blocks.h"
#include "ops/cpu/attention_scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention_backward.cc"  // NOLINT
#include "hwy/foreach_target.h"                             // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/attention_scores-inl.h"
#include "ops/cpu/block_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT
namespace {

struct WeightAndSlope {
  F32 weight;  // P
  F32 slope;   // dS times d score / d product
};

HWY_INLINE WeightAndSlope weigh(const ScoreMap& map, F32 product, F32 dweight, F32 log_sum_exp, F32 delta) {
  const F32 score = map.score(product);
  const F32 weight = exp_lanes(hn::Sub(score, log_sum_exp));
  return {weight, hn::Mul(hn::Mul(weight, hn::Sub(dweight, delta)), map.slope(score))};
}

template <typename I32>
HWY_INLINE auto is_hidden(I32 key, I32 first_key, I32 last_key) {
  const F32Tag d;
  const I32Tag di;
  const auto hidden = hn::Or(hn::VecFromMask(di, hn::Gt(first_key, key)), hn::VecFromMask(di, hn::Gt(key, last_key)));
  return hn::RebindMask(d, hn::MaskFromVec(hidden));
}

struct RowStatistics {
  HWY_ALIGN float log_sum_exp[kRowBlock] = {};
  HWY_ALIGN float delta[kRowBlock] = {};

  RowStatistics(const BackwardInputs& in, const RowGroup& group, IndexRange rows) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      log_sum_exp[row - rows.begin] = in.log_sum_exp[in.row_at(group, row)];
      delta[row - rows.begin] = in.delta[in.row_at(group, row)];
    }
  }
};

}  // namespace

void attention_delta_item(const BackwardInputs& in, const AttentionItem& item, const BackwardScratch& scratch) {
  const F32Tag d;
  const HeadColumns out{.rows = in.args.out};
  const HeadColumns dout{.rows = in.args.dout};
  float* const out_row = scratch.head_block(0);
  float* const dout_row = scratch.head_block(1);
  for (std::int64_t row = item.rows.begin; row < item.rows.end; ++row) {
    read_head(out, item.group.token(row), item.group.head(row), scratch.head_dim(), out_row, scratch.padded());
    read_head(dout, item.group.token(row), item.group.head(row), scratch.head_dim(), dout_row, scratch.padded());
    F32 sum = hn::Zero(d);
    for (std::size_t at = 0; at < scratch.padded(); at += hn::Lanes(d)) {
      sum = hn::MulAdd(hn::Load(d, out_row + at), hn::Load(d, dout_row + at), sum);
    }
    in.delta[in.row_at(item.group, row)] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// ---- dQ: scores are (keys, rows) ----

void attention_dq_item(const BackwardInputs& in, const AttentionItem& item, const BackwardScratch& scratch) {
  const F32Tag d;
  const I32Tag di;
  const RowGroup& group = item.group;
  const std::size_t head_dim = scratch.head_dim();
  const std::size_t padded = scratch.padded();
  const auto num_rows = static_cast<std::size_t>(item.rows.count());
  float* const q_t = scratch.head_block(0);
  float* const dout_t = scratch.head_block(1);
  float* const dq_t = scratch.head_block(2);
  float* const k = scratch.head_block(3);
  float* const v = scratch.head_block(4);
  const ScoreMap map(in.args.shape);
  const RowSight sight(group, item.rows);
  const RowStatistics statistics(in, group, item.rows);

  read_rows(in.args.q, group, item.rows, head_dim, k, padded);
  transpose_block(k, padded, num_rows, head_dim, q_t, kRowBlock);
  read_rows({.rows = in.args.dout}, group, item.rows, head_dim, k, padded);
  transpose_block(k, padded, num_rows, head_dim, dout_t, kRowBlock);
  std::fill_n(dq_t, head_dim * kRowBlock, 0.0F);

  for (std::int64_t first = item.keys.begin / kKeyBlock * kKeyBlock; first < item.keys.end; first += kKeyBlock) {
    const IndexRange keys{.begin = first, .end = std::min(first + kKeyBlock, item.keys.end)};
    const auto num_keys = static_cast<std::size_t>(keys.count());
    read_keys(in.args.k, group, keys, head_dim, k, padded);
    read_keys(in.args.v, group, keys, head_dim, v, padded);
    BlockProduct product{.a = k,
                         .a_row = padded,
                         .a_step = 1,
                         .b = q_t,
                         .b_row = kRowBlock,
                         .c = scratch.weights(),
                         .c_row = kRowBlock,
                         .m = num_keys,
                         .n = num_rows,
                         .k = head_dim};
    multiply_blocks(product);
    product.a = v;
    product.b = dout_t;
    product.c = scratch.slopes();
    multiply_blocks(product);

    const bool masked = !group.all_see_all(item.rows, keys);
    for (std::size_t row = 0; row < num_rows; row += hn::Lanes(d)) {
      const auto first_key = hn::Load(di, sight.first_key + row);
      const auto last_key = hn::Load(di, sight.last_key + row);
      const F32 log_sum_exp = hn::Load(d, statistics.log_sum_exp + row);
      const F32 delta = hn::Load(d, statistics.delta + row);
      for (std::size_t key = 0; key < num_keys; ++key) {
        float* const slope_at = scratch.slopes() + key * kRowBlock + row;
        F32 slope = weigh(map, hn::Load(d, scratch.weights() + key * kRowBlock + row), hn::Load(d, slope_at),
                          log_sum_exp, delta)
                        .slope;
        if (masked) {
          const auto key_lanes = hn::Set(di, static_cast<std::int32_t>(first + static_cast<std::int64_t>(key)));
          slope = hn::IfThenZeroElse(is_hidden(key_lanes, first_key, last_key), slope);
        }
        hn::Store(slope, d, slope_at);
      }
    }
    multiply_blocks({.a = k,
                     .a_row = 1,
                     .a_step = padded,
                     .b = scratch.slopes(),
                     .b_row = kRowBlock,
                     .c = dq_t,
                     .c_row = kRowBlock,
                     .m = head_dim,
                     .n = num_rows,
                     .k = num_keys,
                     .sum = Sum::kOntoC});
  }

  for (std::size_t row = 0; row < num_rows; ++row) {
    const std::int64_t row_idx = item.rows.begin + static_cast<std::int64_t>(row);
    for (std::size_t idx = 0; idx < head_dim; ++idx) k[idx] = dq_t[idx * kRowBlock + row];
    write_head(in.args.dq, group.token(row_idx), group.head(row_idx), head_dim, k);
  }
}

// ---- dK and dV: scores are (rows, keys) ----

void attention_dkv_item(const BackwardInputs& in, const AttentionItem& item, const BackwardScratch& scratch) {
  const F32Tag d;
  const I32Tag di;
  const RowGroup& group = item.group;
  const std::size_t head_dim = scratch.head_dim();
  const std::size_t padded = scratch.padded();
  const IndexRange keys = item.keys;
  const auto num_keys = static_cast<std::size_t>(keys.count());
  float* const k_t = scratch.head_block(0);
  float* const v_t = scratch.head_block(1);
  float* const dk = scratch.head_block(2);
  float* const dv = scratch.head_block(3);
  float* const q = scratch.head_block(4);
  float* const dout = scratch.head_block(5);
  const ScoreMap map(in.args.shape);

  read_keys(in.args.k, group, keys, head_dim, dk, padded);
  transpose_block(dk, padded, num_keys, head_dim, k_t, kKeyBlock);
  read_keys(in.args.v, group, keys, head_dim, dk, padded);
  transpose_block(dk, padded, num_keys, head_dim, v_t, kKeyBlock);
  std::fill_n(dk, num_keys * padded, 0.0F);
  std::fill_n(dv, num_keys * padded, 0.0F);

  for (std::int64_t first = item.rows.begin / kRowBlock * kRowBlock; first < item.rows.end; first += kRowBlock) {
    const IndexRange rows{.begin = first, .end = std::min(first + kRowBlock, item.rows.end)};
    const auto num_rows = static_cast<std::size_t>(rows.count());
    read_rows(in.args.q, group, rows, head_dim, q, padded);
    read_rows({.rows = in.args.dout}, group, rows, head_dim, dout, padded);
    BlockProduct product{.a = q,
                         .a_row = padded,
                         .a_step = 1,
                         .b = k_t,
                         .b_row = kKeyBlock,
                         .c = scratch.weights(),
                         .c_row = kKeyBlock,
                         .m = num_rows,
                         .n = num_keys,
                         .k = head_dim};
    multiply_blocks(product);
    product.a = dout;
    product.b = v_t;
    product.c = scratch.slopes();
    multiply_blocks(product);

    const bool masked = !group.all_see_all(rows, keys);
    const RowSight sight(group, rows);
    const RowStatistics statistics(in, group, rows);
    for (std::size_t row = 0; row < num_rows; ++row) {
      const auto first_key = hn::Set(di, sight.first_key[row]);
      const auto last_key = hn::Set(di, sight.last_key[row]);
      const F32 log_sum_exp = hn::Set(d, statistics.log_sum_exp[row]);
      const F32 delta = hn::Set(d, statistics.delta[row]);
      for (std::size_t key = 0; key < num_keys; key += hn::Lanes(d)) {
        float* const weight_at = scratch.weights() + row * kKeyBlock + key;
        float* const slope_at = scratch.slopes() + row * kKeyBlock + key;
        WeightAndSlope both = weigh(map, hn::Load(d, weight_at), hn::Load(d, slope_at), log_sum_exp, delta);
        if (masked) {
          const auto key_lanes = hn::Iota(di, static_cast<std::int32_t>(keys.begin + static_cast<std::int64_t>(key)));
          const auto hidden = is_hidden(key_lanes, first_key, last_key);
          both.weight = hn::IfThenZeroElse(hidden, both.weight);
          both.slope = hn::IfThenZeroElse(hidden, both.slope);
        }
        hn::Store(both.weight, d, weight_at);
        hn::Store(both.slope, d, slope_at);
      }
    }
    product = {.a = scratch.weights(),
               .a_row = 1,
               .a_step = kKeyBlock,
               .b = dout,
               .b_row = padded,
               .c = dv,
               .c_row = padded,
               .m = num_keys,
               .n = head_dim,
               .k = num_rows,
               .sum = Sum::kOntoC};
    multiply_blocks(product);
    product.a = scratch.slopes();
    product.b = q;
    product.c = dk;
    multiply_blocks(product);
  }

  for (std::size_t key = 0; key < num_keys; ++key) {
    const std::int64_t token = group.segment.k_first + keys.begin + static_cast<std::int64_t>(key);
    write_head(in.args.dk, token, group.kv_head, head_dim, dk + key * padded);
    write_head(in.args.dv, token, group.kv_head, head_dim, dv + key * padded);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {
HWY_EXPORT(attention_delta_item);
HWY_EXPORT(attention_dq_item);
HWY_EXPORT(attention_dkv_item);
}  // namespace

void attention_backward(WorkerTeam& team, const AttentionBackward& args) {
  const std::vector<RowGroup> groups = row_groups(args.shape, args.segments);
  std::vector<BackwardScratch> scratch;
  scratch.reserve(team.num_threads());
  for (std::size_t idx = 0; idx < team.num_threads(); ++idx) scratch.emplace_back(args.shape.head_dim);
  std::vector<float> delta(args.log_sum_exp.as<float>().size());
  const BackwardInputs in{.args = args, .log_sum_exp = args.log_sum_exp.as<float>().data(), .delta = delta.data()};

  std::vector<AttentionItem> items = row_items(groups);
  team.for_each(static_cast<std::int64_t>(items.size()), [&](std::int64_t item_idx, std::size_t worker_idx) {
    HWY_DYNAMIC_DISPATCH(attention_delta_item)(in, items[static_cast<std::size_t>(item_idx)], scratch[worker_idx]);
    HWY_DYNAMIC_DISPATCH(attention_dq_item)(in, items[static_cast<std::size_t>(item_idx)], scratch[worker_idx]);
  });
  items = key_items(groups);
  team.for_each(static_cast<std::int64_t>(items.size()), [&](std::int64_t item_idx, std::size_t worker_idx) {
    HWY_DYNAMIC_DISPATCH(attention_dkv_item)(in, items[static_cast<std::size_t>(item_idx)], scratch[worker_idx]);
  });
}

}  // namespace sluice::cpu
#endif
