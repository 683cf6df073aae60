// SPDX-License-Identifier: Apache-2.0
#include "model/model_ends.h"

#include <algorithm>

#include "base/bf16.h"
#include "model/block_parts.h"
#include "model/slice_layout.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/gemm.h"
#include "ops/norm.h"

namespace sluice {
namespace {

// transformers keeps the scale in the weights' type.
float embedding_scale(const EndPass& pass) {
  const float scale = pass.arch->embedding_scale;
  return pass.dtype == DType::kBF16 ? to_float(to_bf16(scale)) : scale;
}

TensorView view_rows(const Architecture& arch, std::int64_t range_idx, std::span<std::byte> rows, DType dtype) {
  const SliceLayout layout = slice_layout(arch, head_slice(arch, range_idx));
  return layout.view(rows, dtype, arch.tied_head ? Param::kEmbedding : Param::kHead);
}

TensorView view_row_sums(const Architecture& arch, std::int64_t range_idx, std::span<std::byte> gradients) {
  return gradients.empty() ? TensorView() : view_rows(arch, range_idx, gradients, DType::kF32);
}

// += dyᵀ x, where it is wanted.
void add_row_sums(Stream& stream, TensorView sums, TensorView dy, TensorView x) {
  if (sums.bytes().empty()) return;
  gemm(stream, {.a = dy, .b = x, .c = sums, .transpose_a = Transpose::kYes, .into = Into::kAdd});
}

struct NormViews {
  TensorView weight, bias;
};

NormViews view_norm(const Architecture& arch, std::span<std::byte> norm, DType dtype) {
  const SliceLayout layout = slice_layout(arch, final_norm_slice(arch));
  return {.weight = layout.view(norm, dtype, Param::kFinalNorm),
          .bias = layout.view(norm, dtype, Param::kFinalNormBias)};
}

NormViews view_norm_sums(const Architecture& arch, std::span<std::byte> gradients) {
  return gradients.empty() ? NormViews() : view_norm(arch, gradients, DType::kF32);
}

void normalise(const EndPass& pass, const NormViews& norm, TensorView x, TensorView y) {
  norm_forward(
      *pass.stream,
      {.kind = pass.arch->norm, .eps = pass.arch->norm_eps, .x = x, .weight = norm.weight, .bias = norm.bias, .y = y});
}

BlockSize size_of(const EndPass& pass) {
  return {.num_tokens = pass.batch->num_tokens(), .dtype = pass.dtype, .device = pass.stream->kind()};
}

struct ChunkState {
  TensorView normed;    // (chunk, hidden)
  TensorView logits;    // (chunk * range) f32
  TensorView d_logits;  // (chunk * range); the logits' own memory where they are f32
  TensorView d_normed;  // (chunk, hidden)

  // Of `count` tokens over a range.
  TensorView logits_of(std::int64_t count, std::int64_t range) const { return cut(logits, count, range); }
  TensorView d_logits_of(std::int64_t count, std::int64_t range) const { return cut(d_logits, count, range); }

 private:
  static TensorView cut(const TensorView& all, std::int64_t count, std::int64_t range) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(count * range) * size_bytes(all.dtype());
    return {all.bytes().first(bytes), all.dtype(), {count, range}};
  }
};

ChunkState take_chunk_state(const Architecture& arch, const BlockSize& size, Workspace& workspace) {
  const auto [num_tokens, dtype, device] = size;
  const std::int64_t chunk = std::min(num_tokens, head_chunk_tokens(arch, device));
  const Shape logits{chunk * widest_range(arch)};
  ChunkState state;
  state.normed = workspace.take(dtype, {chunk, arch.hidden});
  state.logits = workspace.take(DType::kF32, logits);
  state.d_logits = dtype == DType::kF32 ? state.logits : workspace.take(dtype, logits);
  state.d_normed = workspace.take(dtype, {chunk, arch.hidden});
  return state;
}

}  // namespace

void embed_rows(const EndPass& pass, std::int64_t range_idx, std::span<std::byte> weights, TensorView x) {
  const SliceLayout layout = slice_layout(*pass.arch, embedding_slice(range_idx));
  embedding_forward(*pass.stream,
                    {.ids = pass.batch->ids(),
                     .table = layout.view(weights, pass.dtype, Param::kEmbedding),
                     .out = x,
                     .range = {.first = vocab_range(*pass.arch, range_idx).first, .total = pass.arch->vocab},
                     .scale = embedding_scale(pass)});
}

void embed_positions(const EndPass& pass, std::span<std::byte> weights, TensorView x) {
  const SliceLayout layout = slice_layout(*pass.arch, positions_slice(*pass.arch));
  embedding_forward(*pass.stream, {.ids = pass.batch->position_rows(),
                                   .table = layout.view(weights, pass.dtype, Param::kPositions),
                                   .out = x,
                                   .into = Into::kAdd});
}

void embed_rows_backward(const EndPass& pass, std::int64_t range_idx, std::span<std::byte> gradients, TensorView dx) {
  const SliceLayout layout = slice_layout(*pass.arch, embedding_slice(range_idx));
  embedding_backward(*pass.stream,
                     {.ids = pass.batch->ids(),
                      .dout = dx,
                      .dtable = layout.view(gradients, DType::kF32, Param::kEmbedding),
                      .range = {.first = vocab_range(*pass.arch, range_idx).first, .total = pass.arch->vocab},
                      .skipped_id = pass.arch->padding_id,
                      .scale = embedding_scale(pass)});
}

void embed_positions_backward(const EndPass& pass, std::span<std::byte> gradients, TensorView dx) {
  const SliceLayout layout = slice_layout(*pass.arch, positions_slice(*pass.arch));
  embedding_backward(*pass.stream, {.ids = pass.batch->position_rows(),
                                    .dout = dx,
                                    .dtable = layout.view(gradients, DType::kF32, Param::kPositions)});
}

std::uint64_t head_workspace_bytes(const Architecture& arch, const BlockSize& size) {
  Workspace counting;
  take_chunk_state(arch, size, counting);
  return counting.used_bytes();
}

void head_loss(const EndPass& pass, const HeadSlices& weights, const HeadSlices& gradients, TensorView x, TensorView dx,
               TensorView losses, float loss_scale, Workspace workspace) {
  const Architecture& arch = *pass.arch;
  CHECK(arch.num_vocab_ranges() == 1, "the softmax of several ranges needs all of them first");
  Stream& stream = *pass.stream;
  const std::int64_t num_tokens = pass.batch->num_tokens();
  const NormViews norm = view_norm(arch, weights.norm, pass.dtype);
  const NormViews norm_sums = view_norm_sums(arch, gradients.norm);
  const TensorView matrix = view_rows(arch, 0, weights.rows, pass.dtype);
  const TensorView matrix_sums = view_row_sums(arch, 0, gradients.rows);
  const ChunkState state = take_chunk_state(arch, size_of(pass), workspace);
  for_each_chunk(num_tokens, head_chunk_tokens(arch, pass.stream->kind()), [&](std::int64_t first, std::int64_t count) {
    const TensorView normed = state.normed.rows(0, count);
    const TensorView logits = state.logits_of(count, arch.vocab);
    const TensorView d_logits = state.d_logits_of(count, arch.vocab);
    const TensorView d_normed = state.d_normed.rows(0, count);
    normalise(pass, norm, x.rows(first, count), normed);
    gemm(stream, {.a = normed, .b = matrix, .c = logits, .transpose_b = Transpose::kYes});
    cross_entropy(stream, {.logits = logits,
                           .labels = pass.batch->labels().rows(first, count),
                           .losses = losses.rows(first, count),
                           .dlogits = d_logits,
                           .soft_cap = arch.logit_soft_cap,
                           .grad_scale = loss_scale});
    add_row_sums(stream, matrix_sums, d_logits, normed);
    gemm(stream, {.a = d_logits, .b = matrix, .c = d_normed});
    norm_backward(stream, {.kind = arch.norm,
                           .eps = arch.norm_eps,
                           .x = x.rows(first, count),
                           .weight = norm.weight,
                           .dy = d_normed,
                           .dx = dx.rows(first, count),
                           .dweight = norm_sums.weight,
                           .dbias = norm_sums.bias});
  });
}

HeadState take_head_state(const Architecture& arch, std::int64_t num_tokens, Workspace& workspace) {
  HeadState state;
  state.statistics = workspace.take(DType::kF32, {num_tokens, kSoftmaxStatistics});
  if (arch.num_vocab_ranges() > 1) state.d_normed = workspace.take(DType::kF32, {num_tokens, arch.hidden});
  return state;
}

void head_statistics(const EndPass& pass, std::int64_t range_idx, const HeadSlices& weights, TensorView x,
                     const HeadState& state, Workspace workspace) {
  const Architecture& arch = *pass.arch;
  const std::int64_t num_tokens = pass.batch->num_tokens();
  const VocabRange range = vocab_range(arch, range_idx);
  const NormViews norm = view_norm(arch, weights.norm, pass.dtype);
  const TensorView matrix = view_rows(arch, range_idx, weights.rows, pass.dtype);
  const ChunkState chunk = take_chunk_state(arch, size_of(pass), workspace);
  for_each_chunk(num_tokens, head_chunk_tokens(arch, pass.stream->kind()), [&](std::int64_t first, std::int64_t count) {
    const TensorView normed = chunk.normed.rows(0, count);
    const TensorView logits = chunk.logits_of(count, range.count);
    normalise(pass, norm, x.rows(first, count), normed);
    gemm(*pass.stream, {.a = normed, .b = matrix, .c = logits, .transpose_b = Transpose::kYes});
    softmax_statistics(*pass.stream, {.logits = logits,
                                      .labels = pass.batch->labels().rows(first, count),
                                      .statistics = state.statistics.rows(first, count),
                                      .first_id = range.first,
                                      .soft_cap = arch.logit_soft_cap,
                                      .into = range_idx == 0 ? Into::kOverwrite : Into::kAdd});
  });
}

void head_gradients(const EndPass& pass, std::int64_t range_idx, const HeadSlices& weights,
                    std::span<std::byte> row_gradients, TensorView x, const HeadState& state, float loss_scale,
                    Workspace workspace) {
  const Architecture& arch = *pass.arch;
  Stream& stream = *pass.stream;
  const std::int64_t num_tokens = pass.batch->num_tokens();
  const VocabRange range = vocab_range(arch, range_idx);
  const NormViews norm = view_norm(arch, weights.norm, pass.dtype);
  const TensorView matrix = view_rows(arch, range_idx, weights.rows, pass.dtype);
  const TensorView matrix_sums = view_row_sums(arch, range_idx, row_gradients);
  const ChunkState chunk = take_chunk_state(arch, size_of(pass), workspace);
  for_each_chunk(num_tokens, head_chunk_tokens(arch, pass.stream->kind()), [&](std::int64_t first, std::int64_t count) {
    const TensorView normed = chunk.normed.rows(0, count);
    const TensorView logits = chunk.logits_of(count, range.count);
    const TensorView d_logits = chunk.d_logits_of(count, range.count);
    normalise(pass, norm, x.rows(first, count), normed);
    gemm(stream, {.a = normed, .b = matrix, .c = logits, .transpose_b = Transpose::kYes});
    softmax_gradient(stream, {.logits = logits,
                              .labels = pass.batch->labels().rows(first, count),
                              .statistics = state.statistics.rows(first, count),
                              .dlogits = d_logits,
                              .first_id = range.first,
                              .soft_cap = arch.logit_soft_cap,
                              .grad_scale = loss_scale});
    add_row_sums(stream, matrix_sums, d_logits, normed);
    gemm(stream, {.a = d_logits,
                  .b = matrix,
                  .c = state.d_normed.rows(first, count),
                  .into = range_idx == 0 ? Into::kOverwrite : Into::kAdd});
  });
}

void head_end(const EndPass& pass, std::span<std::byte> norm, std::span<std::byte> norm_gradients, TensorView x,
              TensorView dx, TensorView losses, const HeadState& state, Workspace workspace) {
  const Architecture& arch = *pass.arch;
  const std::int64_t num_tokens = pass.batch->num_tokens();
  const NormViews weights = view_norm(arch, norm, pass.dtype);
  const NormViews sums = view_norm_sums(arch, norm_gradients);
  const ChunkState chunk = take_chunk_state(arch, size_of(pass), workspace);
  losses_of_statistics(*pass.stream, state.statistics, pass.batch->labels(), losses);
  for_each_chunk(num_tokens, head_chunk_tokens(arch, pass.stream->kind()), [&](std::int64_t first, std::int64_t count) {
    const TensorView d_normed = chunk.d_normed.rows(0, count);
    round_to(*pass.stream, d_normed, state.d_normed.rows(first, count));
    norm_backward(*pass.stream, {.kind = arch.norm,
                                 .eps = arch.norm_eps,
                                 .x = x.rows(first, count),
                                 .weight = weights.weight,
                                 .dy = d_normed,
                                 .dx = dx.rows(first, count),
                                 .dweight = sums.weight,
                                 .dbias = sums.bias});
  });
}

std::uint64_t head_logits_workspace_bytes(const Architecture& arch, std::int64_t num_rows, DType dtype) {
  Workspace counting;
  counting.take(dtype, {num_rows, arch.hidden});
  if (arch.num_vocab_ranges() > 1) counting.take(DType::kF32, {num_rows, widest_range(arch)});
  return counting.used_bytes();
}

void head_logits(const EndPass& pass, std::int64_t range_idx, const HeadSlices& weights, TensorView x,
                 TensorView logits, Workspace workspace) {
  const Architecture& arch = *pass.arch;
  const VocabRange range = vocab_range(arch, range_idx);
  const TensorView normed = workspace.take(pass.dtype, x.shape());
  normalise(pass, view_norm(arch, weights.norm, pass.dtype), x, normed);
  const TensorView matrix = view_rows(arch, range_idx, weights.rows, pass.dtype);
  const bool whole = range.count == arch.vocab;
  const TensorView columns = whole ? logits : workspace.take(DType::kF32, {x.shape()[0], range.count});
  gemm(*pass.stream, {.a = normed, .b = matrix, .c = columns, .transpose_b = Transpose::kYes});
  if (arch.logit_soft_cap > 0) soft_cap(*pass.stream, columns, arch.logit_soft_cap);
  if (!whole) copy_columns(*pass.stream, {logits, range.first}, {columns, 0}, range.count);
}

}  // namespace sluice
