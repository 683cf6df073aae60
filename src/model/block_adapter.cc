// SPDX-License-Identifier: Apache-2.0
#include "model/block_adapter.h"

#include <algorithm>

#include "base/random.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/gemm.h"
#include "ops/low_rank.h"

namespace sluice {
namespace {

// A matrix at the start of memory that was taken for the largest.
TensorView cut(const TensorView& room, std::int64_t rows, std::int64_t cols) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(rows * cols) * size_bytes(room.dtype());
  return {room.bytes().first(bytes), room.dtype(), {rows, cols}};
}

}  // namespace

BlockAdapter::BlockAdapter(const Architecture& arch, std::int64_t num_tokens, DType dtype, Keep keep,
                           Workspace& workspace)
    : layout_(arch), rank_(arch.adapter.rank) {
  if (!arch.adapter.exists()) return;
  scale_ = static_cast<float>(arch.adapter.scale());
  std::int64_t most_columns = 0;
  std::int64_t most_in = 0;
  std::int64_t largest_b = 0;
  for (const AdapterPart& part : layout_.parts()) {
    Packed& packed = packed_[static_cast<std::size_t>(part.projection)];
    packed.part = &part;
    packed.a = workspace.take(dtype, {part.num_columns(), part.in});
    packed.b = workspace.take(dtype, {part.out, part.num_columns()});
    most_columns = std::max(most_columns, part.num_columns());
    most_in = std::max(most_in, part.in);
    largest_b = std::max(largest_b, part.out * part.num_columns());
  }
  inner_ = workspace.take(dtype, {num_tokens * most_columns});
  if (arch.adapter.dropout > 0) dropped_ = workspace.take(dtype, {num_tokens * most_in});
  if (keep == Keep::kForForward) return;
  d_inner_ = workspace.take(dtype, {num_tokens * most_columns});
  d_b_ = workspace.take(DType::kF32, {largest_b});
}

std::vector<LowRankBlock> BlockAdapter::blocks(const AdapterPart& part, std::span<std::byte> adapter) const {
  std::vector<LowRankBlock> blocks;
  for (std::size_t idx = 0; idx < part.sites.size(); ++idx) {
    blocks.push_back({.matrix = AdapterLayout::view(adapter, part.b[idx]),
                      .first_row = part.sites[idx].first_row,
                      .first_col = static_cast<std::int64_t>(idx) * rank_});
  }
  return blocks;
}

void BlockAdapter::pack(Stream& stream, const AdapterPass& pass) {
  pass_ = pass;
  for (const Packed& packed : packed_) {
    if (packed.part == nullptr) continue;
    round_to(stream, packed.a, AdapterLayout::view(pass.weights, packed.part->a));
    spread_blocks(stream, packed.b, blocks(*packed.part, pass.weights), scale_);
  }
}

void BlockAdapter::drop(Stream& stream, Projection projection, TensorView from, TensorView to,
                        std::int64_t first_token) const {
  const std::uint64_t seed = Random(pass_.dropout_seed ^ static_cast<std::uint64_t>(projection)).next();
  dropout(stream, {.in = from, .out = to, .rate = pass_.dropout, .seed = seed, .first_row = first_token});
}

TensorView BlockAdapter::input(Stream& stream, const Packed& packed, TensorView x, std::int64_t first_token) const {
  if (pass_.dropout <= 0) return x;
  const TensorView dropped = cut(dropped_, x.shape()[0], packed.part->in);
  drop(stream, packed.part->projection, x, dropped, first_token);
  return dropped;
}

void BlockAdapter::add(Stream& stream, Projection projection, TensorView x, TensorView y,
                       std::int64_t first_token) const {
  const Packed& matrices = packed(projection);
  if (matrices.part == nullptr) return;
  const TensorView inner = cut(inner_, x.shape()[0], matrices.part->num_columns());
  gemm(stream,
       {.a = input(stream, matrices, x, first_token), .b = matrices.a, .c = inner, .transpose_b = Transpose::kYes});
  gemm(stream, {.a = inner, .b = matrices.b, .c = y, .transpose_b = Transpose::kYes, .into = Into::kAdd});
}

void BlockAdapter::backward(Stream& stream, Projection projection, std::span<std::byte> gradients, TensorView x,
                            TensorView dy, TensorView dx, std::int64_t first_token) const {
  const Packed& matrices = packed(projection);
  if (matrices.part == nullptr) return;
  const AdapterPart& part = *matrices.part;
  const std::int64_t num_rows = x.shape()[0];
  const TensorView inner = cut(inner_, num_rows, part.num_columns());
  const TensorView d_inner = cut(d_inner_, num_rows, part.num_columns());
  const TensorView d_b = cut(d_b_, part.out, part.num_columns());
  const TensorView read = input(stream, matrices, x, first_token);
  gemm(stream, {.a = read, .b = matrices.a, .c = inner, .transpose_b = Transpose::kYes});
  gemm(stream, {.a = dy, .b = inner, .c = d_b, .transpose_a = Transpose::kYes});
  add_from_blocks(stream, blocks(part, gradients), d_b, scale_);
  gemm(stream, {.a = dy, .b = matrices.b, .c = d_inner});
  gemm(stream, {.a = d_inner,
                .b = read,
                .c = AdapterLayout::view(gradients, part.a),
                .transpose_a = Transpose::kYes,
                .into = Into::kAdd});
  if (dx.bytes().empty()) return;
  if (pass_.dropout <= 0) {
    gemm(stream, {.a = d_inner, .b = matrices.a, .c = dx, .into = Into::kAdd});
    return;
  }
  gemm(stream, {.a = d_inner, .b = matrices.a, .c = read});
  drop(stream, projection, read, read, first_token);
  sluice::add(stream, dx, dx, read);
}

}  // namespace sluice
