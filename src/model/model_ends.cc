// SPDX-License-Identifier: Apache-2.0
#include "model/model_ends.h"

#include <algorithm>

#include "base/bf16.h"
#include "model/block_parts.h"
#include "model/slice_layout.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/gemm.h"
#include "ops/norm.h"

namespace sluice {
namespace {

// Tokens that the head takes at a time: about 16 Mi logits. Gradients are summed chunk by chunk, so this is part of the
// numbers: it follows from the vocabulary alone, never from budgets.
std::int64_t head_chunk_tokens(const Architecture& arch) {
  return std::clamp<std::int64_t>((16 << 20) / arch.vocab, 16, 1024);
}

// transformers keeps the scale in the weights' type.
float embedding_scale(const EndPass& pass) {
  const float scale = pass.arch->embedding_scale;
  return pass.dtype == DType::kBF16 ? to_float(to_bf16(scale)) : scale;
}

struct HeadViews {
  TensorView norm, norm_bias, matrix;
};

HeadViews view_head(const Architecture& arch, std::span<std::byte> head, std::span<std::byte> embedding, DType dtype) {
  const SliceLayout layout = slice_layout(arch, head_slice(arch));
  const SliceLayout embedding_layout = slice_layout(arch, kEmbeddingSlice);
  return {.norm = layout.view(head, dtype, Param::kFinalNorm),
          .norm_bias = layout.view(head, dtype, Param::kFinalNormBias),
          .matrix = arch.tied_head ? embedding_layout.view(embedding, dtype, Param::kEmbedding)
                                   : layout.view(head, dtype, Param::kHead)};
}

struct HeadState {
  TensorView normed;    // (chunk, hidden)
  TensorView logits;    // (chunk, vocab) f32
  TensorView d_logits;  // (chunk, vocab); the logits' own memory where they are f32
  TensorView d_normed;  // (chunk, hidden)
};

HeadState take_head_state(const Architecture& arch, std::int64_t num_tokens, DType dtype, Workspace& workspace) {
  const std::int64_t chunk = std::min(num_tokens, head_chunk_tokens(arch));
  HeadState state;
  state.normed = workspace.take(dtype, {chunk, arch.hidden});
  state.logits = workspace.take(DType::kF32, {chunk, arch.vocab});
  state.d_logits = dtype == DType::kF32 ? state.logits : workspace.take(dtype, {chunk, arch.vocab});
  state.d_normed = workspace.take(dtype, {chunk, arch.hidden});
  return state;
}

}  // namespace

void embed_forward(const EndPass& pass, TensorView x) {
  const SliceLayout layout = slice_layout(*pass.arch, kEmbeddingSlice);
  embedding_forward(*pass.stream, {.ids = pass.batch->ids(),
                                   .table = layout.view(pass.embedding, pass.dtype, Param::kEmbedding),
                                   .out = x,
                                   .scale = embedding_scale(pass)});
  if (pass.arch->learned_positions > 0) {
    embedding_forward(*pass.stream, {.ids = pass.batch->position_rows(),
                                     .table = layout.view(pass.embedding, pass.dtype, Param::kPositions),
                                     .out = x,
                                     .into = Into::kAdd});
  }
}

void embed_backward(const EndPass& pass, std::span<std::byte> gradients, TensorView dx) {
  const SliceLayout layout = slice_layout(*pass.arch, kEmbeddingSlice);
  embedding_backward(*pass.stream, {.ids = pass.batch->ids(),
                                    .dout = dx,
                                    .dtable = layout.view(gradients, DType::kF32, Param::kEmbedding),
                                    .scale = embedding_scale(pass)});
  if (pass.arch->learned_positions > 0) {
    embedding_backward(*pass.stream, {.ids = pass.batch->position_rows(),
                                      .dout = dx,
                                      .dtable = layout.view(gradients, DType::kF32, Param::kPositions)});
  }
}

std::uint64_t head_loss_workspace_bytes(const Architecture& arch, std::int64_t num_tokens, DType dtype) {
  Workspace counting;
  take_head_state(arch, num_tokens, dtype, counting);
  return counting.used_bytes();
}

void head_loss(const EndPass& pass, TensorView x, TensorView losses, float loss_scale, const HeadGradients& gradients,
               Workspace workspace) {
  const Architecture& arch = *pass.arch;
  Stream& stream = *pass.stream;
  const std::int64_t num_tokens = pass.batch->num_tokens();
  const HeadViews weights = view_head(arch, pass.head, pass.embedding, pass.dtype);
  const HeadViews sums = view_head(arch, gradients.head, gradients.embedding, DType::kF32);
  const HeadState state = take_head_state(arch, num_tokens, pass.dtype, workspace);
  for_each_chunk(num_tokens, head_chunk_tokens(arch), [&](std::int64_t first, std::int64_t count) {
    const TensorView normed = state.normed.rows(0, count);
    const TensorView logits = state.logits.rows(0, count);
    const TensorView d_logits = state.d_logits.rows(0, count);
    const TensorView d_normed = state.d_normed.rows(0, count);
    norm_forward(stream, {.kind = arch.norm,
                          .eps = arch.norm_eps,
                          .x = x.rows(first, count),
                          .weight = weights.norm,
                          .bias = weights.norm_bias,
                          .y = normed});
    gemm(stream, {.a = normed, .b = weights.matrix, .c = logits, .transpose_b = Transpose::kYes});
    cross_entropy(stream, {.logits = logits,
                           .labels = pass.batch->labels().rows(first, count),
                           .losses = losses.rows(first, count),
                           .dlogits = d_logits,
                           .soft_cap = arch.logit_soft_cap,
                           .grad_scale = loss_scale});
    gemm(stream, {.a = d_logits, .b = normed, .c = sums.matrix, .transpose_a = Transpose::kYes, .into = Into::kAdd});
    gemm(stream, {.a = d_logits, .b = weights.matrix, .c = d_normed});
    norm_backward(stream, {.kind = arch.norm,
                           .eps = arch.norm_eps,
                           .x = x.rows(first, count),
                           .weight = weights.norm,
                           .dy = d_normed,
                           .dx = gradients.dx.rows(first, count),
                           .dweight = sums.norm,
                           .dbias = sums.norm_bias});
  });
}

std::uint64_t head_logits_workspace_bytes(const Architecture& arch, std::int64_t num_rows, DType dtype) {
  Workspace counting;
  counting.take(dtype, {num_rows, arch.hidden});
  return counting.used_bytes();
}

void head_logits(const EndPass& pass, TensorView x, TensorView logits, Workspace workspace) {
  const Architecture& arch = *pass.arch;
  const HeadViews weights = view_head(arch, pass.head, pass.embedding, pass.dtype);
  const TensorView normed = workspace.take(pass.dtype, x.shape());
  norm_forward(*pass.stream, {.kind = arch.norm,
                              .eps = arch.norm_eps,
                              .x = x,
                              .weight = weights.norm,
                              .bias = weights.norm_bias,
                              .y = normed});
  gemm(*pass.stream, {.a = normed, .b = weights.matrix, .c = logits, .transpose_b = Transpose::kYes});
  if (arch.logit_soft_cap > 0) soft_cap(*pass.stream, logits, arch.logit_soft_cap);
}

}  // namespace sluice
