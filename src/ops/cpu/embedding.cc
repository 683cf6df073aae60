// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/embedding.h"

#include <span>

#include <fmt/format.h>

#include "base/bf16.h"
#include "base/error.h"
#include "ops/cpu/items.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/embedding.cc"  // NOLINT
#include "hwy/foreach_target.h"                    // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "ops/cpu/loop-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu {
namespace HWY_NAMESPACE {  // NOLINT

// to = from * scale, or to += that.
template <typename From, typename To>
void put_scaled(const From* from, To* to, std::size_t count, float scale, Into into) {
  const F32Tag d;
  const F32 factor = hn::Set(d, scale);
  over_lanes(0, count, [&](std::size_t at, auto part) SLUICE_LANES {
    F32 value = hn::Mul(part.load(d, from + at), factor);
    if (into == Into::kAdd) value = hn::Add(value, part.load(d, to + at));
    part.store(d, value, to + at);
  });
}

template <typename T>
void forward_typed(const EmbeddingForward& args, std::int64_t token) {
  const std::int64_t dim = args.table.shape()[1];
  const std::int64_t row = args.ids.as<std::int32_t>()[static_cast<std::size_t>(token)] - args.range.first;
  if (row < 0 || row >= args.table.shape()[0]) return;
  put_scaled(args.table.as<T>().data() + row * dim, args.out.as<T>().data() + token * dim,
             static_cast<std::size_t>(dim), args.scale, args.into);
}

void forward_token(const EmbeddingForward& args, std::int64_t token) {
  args.table.dtype() == DType::kF32 ? forward_typed<float>(args, token) : forward_typed<BF16>(args, token);
}

template <typename T>
void backward_typed(const EmbeddingBackward& args, std::int64_t first_col, std::int64_t num_cols) {
  const std::int64_t dim = args.dtable.shape()[1];
  const std::span<const std::int32_t> ids = args.ids.as<std::int32_t>();
  const T* from = args.dout.as<T>().data() + first_col;
  float* to = args.dtable.as<float>().data() + first_col;
  for (std::size_t token = 0; token < ids.size(); ++token) {
    const std::int64_t row = ids[token] - args.range.first;
    if (row < 0 || row >= args.dtable.shape()[0] || ids[token] == args.skipped_id) continue;
    put_scaled(from + static_cast<std::int64_t>(token) * dim, to + row * dim, static_cast<std::size_t>(num_cols),
               args.scale, Into::kAdd);
  }
}

void backward_columns(const EmbeddingBackward& args, std::int64_t first_col, std::int64_t num_cols) {
  args.dout.dtype() == DType::kF32 ? backward_typed<float>(args, first_col, num_cols)
                                   : backward_typed<BF16>(args, first_col, num_cols);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {
namespace {

HWY_EXPORT(forward_token);
HWY_EXPORT(backward_columns);

// Four cache lines of f32: few enough for many threads, enough for each visit of a row to be worth it.
constexpr std::int64_t kItemCols = 64;

void require_rows(const TensorView& ids, const TensorView& table, const RowRange& range) {
  const std::int64_t num_rows = range.total > 0 ? range.total : table.shape()[0];
  const std::span<const std::int32_t> all = ids.as<std::int32_t>();
  for (std::size_t token = 0; token < all.size(); ++token) {
    if (all[token] < 0 || all[token] >= num_rows) {
      throw InvalidInput(
          fmt::format("Token {} has the id {}, but the embedding has ids 0 to {}: use the tokenizer that "
                      "belongs to the model.",
                      token, all[token], num_rows - 1));
    }
  }
}

}  // namespace

void embedding_forward(WorkerTeam& team, const EmbeddingForward& args) {
  require_rows(args.ids, args.table, args.range);
  team.for_each(args.out.shape()[0], [&](std::int64_t token, std::size_t) {
    HWY_DYNAMIC_DISPATCH(forward_token)(args, token);
  });
}

// Tokens may share a row, so threads share columns out, not tokens.
void embedding_backward(WorkerTeam& team, const EmbeddingBackward& args) {
  require_rows(args.ids, args.dtable, args.range);
  over_items(team, args.dtable.shape()[1], kItemCols, [&](std::int64_t first_col, std::int64_t num_cols) {
    HWY_DYNAMIC_DISPATCH(backward_columns)(args, first_col, num_cols);
  });
}

}  // namespace sluice::cpu
#endif
