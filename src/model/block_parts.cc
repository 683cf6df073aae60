// SPDX-License-Identifier: Apache-2.0
#include "model/block_parts.h"

#include <algorithm>

#include "base/check.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/rotary.h"

namespace sluice {
namespace {

void norm_heads(const BlockPass& pass, const BlockViews& weights, const AttentionState& state) {
  const Architecture& arch = *pass.arch;
  Stream& stream = *pass.stream;
  norm_forward(stream, {.kind = arch.norm,
                        .eps = arch.norm_eps,
                        .x = state.qkv_raw,
                        .weight = weights.q_norm,
                        .y = state.qkv,
                        .columns = {.first_col = 0, .num_runs = arch.num_heads}});
  norm_forward(stream, {.kind = arch.norm,
                        .eps = arch.norm_eps,
                        .x = state.qkv_raw,
                        .weight = weights.k_norm,
                        .y = state.qkv,
                        .columns = {.first_col = arch.q_width(), .num_runs = arch.num_kv_heads}});
  const std::int64_t v_col = arch.q_width() + arch.kv_width();
  copy_columns(stream, {state.qkv, v_col}, {state.qkv_raw, v_col}, arch.kv_width());
}

// Up to attention's output.
AttentionState take_branch(const Architecture& arch, std::int64_t num_tokens, DType dtype, Workspace& workspace) {
  AttentionState state;
  state.normed = workspace.take(dtype, {num_tokens, arch.hidden});
  state.qkv = workspace.take(dtype, {num_tokens, arch.qkv_width()});
  state.qkv_raw = arch.qk_norm ? workspace.take(dtype, {num_tokens, arch.qkv_width()}) : state.qkv;
  state.heads = workspace.take(dtype, {num_tokens, arch.q_width()});
  return state;
}

void take_kept_attention(const Architecture& arch, const BlockSize& size, Workspace& from, AttentionState& state) {
  state.heads = from.take(size.dtype, {size.num_tokens, arch.q_width()});
  state.log_sum_exp = from.take(DType::kF32, {arch.num_heads, size.num_tokens});
}

}  // namespace

BlockViews view_block(const Architecture& arch, std::span<std::byte> slice, DType dtype) {
  const SliceLayout layout = slice_layout(arch, block_slice(arch, 0));
  const auto view = [&](Param param) { return layout.view(slice, dtype, param); };
  return {
      .attention_norm = view(Param::kAttentionNorm),
      .attention_norm_bias = view(Param::kAttentionNormBias),
      .qkv = view(Param::kQkv),
      .qkv_bias = view(Param::kQkvBias),
      .q_norm = view(Param::kQNorm),
      .k_norm = view(Param::kKNorm),
      .out = view(Param::kOut),
      .out_bias = view(Param::kOutBias),
      .norm_after_attention = view(Param::kNormAfterAttention),
      .mlp_norm = view(Param::kMlpNorm),
      .mlp_norm_bias = view(Param::kMlpNormBias),
      .up = view(Param::kUp),
      .up_bias = view(Param::kUpBias),
      .down = view(Param::kDown),
      .down_bias = view(Param::kDownBias),
      .norm_after_mlp = view(Param::kNormAfterMlp),
  };
}

TensorView BlockViews::matrix(Projection projection) const {
  switch (projection) {
    case Projection::kQkv:
      return qkv;
    case Projection::kOut:
      return out;
    case Projection::kUp:
      return up;
    case Projection::kDown:
      break;
  }
  return down;
}

TensorView BlockViews::bias(Projection projection) const {
  switch (projection) {
    case Projection::kQkv:
      return qkv_bias;
    case Projection::kOut:
      return out_bias;
    case Projection::kUp:
      return up_bias;
    case Projection::kDown:
      break;
  }
  return down_bias;
}

void project(const BlockPass& pass, const BlockMatrices& matrices, Projection projection, TensorView x, TensorView y,
             std::int64_t first_token) {
  gemm(*pass.stream, {.a = x,
                      .b = matrices.weights.matrix(projection),
                      .c = y,
                      .bias = matrices.weights.bias(projection),
                      .transpose_b = Transpose::kYes});
  matrices.adapter.add(*pass.stream, projection, x, y, first_token);
}

void normalise(const BlockPass& pass, TensorView x, TensorView weight, TensorView bias, TensorView y) {
  norm_forward(*pass.stream,
               {.kind = pass.arch->norm, .eps = pass.arch->norm_eps, .x = x, .weight = weight, .bias = bias, .y = y});
}

AttentionState take_attention_state(const Architecture& arch, std::int64_t num_tokens, DType dtype,
                                    Workspace& workspace) {
  AttentionState state = take_branch(arch, num_tokens, dtype, workspace);
  state.out = workspace.take(dtype, {num_tokens, arch.hidden});
  state.out_raw = state.out;
  return state;
}

Intermediates take_intermediates(const Architecture& arch, const BlockSize& size, std::optional<Workspace>& kept,
                                 Workspace& workspace) {
  Workspace& lasting = kept ? *kept : workspace;
  const auto [num_tokens, dtype, device] = size;
  const std::int64_t mlp_tokens = kept ? num_tokens : std::min(num_tokens, mlp_chunk_tokens(device));
  const Shape hidden{num_tokens, arch.hidden};
  Intermediates taken{.attention = take_branch(arch, num_tokens, dtype, lasting)};
  AttentionState& attention = taken.attention;
  attention.log_sum_exp = lasting.take(DType::kF32, {arch.num_heads, num_tokens});
  attention.out = workspace.take(dtype, hidden);
  attention.out_raw = arch.norm_after_attention ? lasting.take(dtype, hidden) : attention.out;
  if (arch.residual == Residual::kSerial) taken.mlp_input = lasting.take(dtype, hidden);
  if (arch.residual != Residual::kParallelShared) taken.mlp_normed = lasting.take(dtype, hidden);
  taken.up = lasting.take(dtype, {mlp_tokens, arch.up_width()});
  if (arch.norm_after_mlp) taken.mlp_out = lasting.take(dtype, {mlp_tokens, arch.hidden});
  return taken;
}

std::optional<Workspace> kept_workspace(const BlockPass& pass) {
  return pass.kept.empty() ? std::nullopt : std::optional<Workspace>(pass.kept);
}

BlockSize size_of(const BlockPass& pass) {
  return {.num_tokens = pass.batch->num_tokens(), .dtype = pass.dtype, .device = pass.stream->kind()};
}

std::uint64_t block_kept_bytes(const Architecture& arch, const BlockSize& size) {
  std::optional<Workspace> counting(std::in_place);
  Workspace workspace;
  take_intermediates(arch, size, counting, workspace);
  return counting->used_bytes();
}

std::uint64_t attention_kept_bytes(const Architecture& arch, const BlockSize& size) {
  Workspace counting;
  AttentionState state;
  take_kept_attention(arch, size, counting, state);
  return counting.used_bytes();
}

void use_kept_attention(const BlockPass& pass, AttentionState& state) {
  Workspace kept(pass.attention);
  take_kept_attention(*pass.arch, size_of(pass), kept, state);
}

void turn_heads(const BlockPass& pass, TensorView qkv, Turn turn) {
  const Architecture& arch = *pass.arch;
  if (arch.ropes.empty()) return;
  const std::size_t rope_idx = arch.layers[static_cast<std::size_t>(pass.layer_idx)].rope_idx;
  rotary(*pass.stream, {.heads = qkv,
                        .cos = pass.batch->rope_cos(rope_idx),
                        .sin = pass.batch->rope_sin(rope_idx),
                        .num_heads = arch.num_heads + arch.num_kv_heads,
                        .head_dim = arch.head_dim,
                        .turn = turn});
}

AttentionShape attention_shape(const Architecture& arch, std::int64_t layer_idx) {
  return {.num_heads = arch.num_heads,
          .num_kv_heads = arch.num_kv_heads,
          .head_dim = arch.head_dim,
          .scale = arch.attention_scale,
          .window = arch.layers[static_cast<std::size_t>(layer_idx)].window_tokens,
          .soft_cap = arch.attention_soft_cap};
}

void run_attention(const BlockPass& pass, const BlockMatrices& matrices, TensorView x, const AttentionState& state,
                   const KvCache* cache, HeadsAre heads) {
  const Architecture& arch = *pass.arch;
  const BlockViews& weights = matrices.weights;
  Stream& stream = *pass.stream;
  normalise(pass, x, weights.attention_norm, weights.attention_norm_bias, state.normed);
  project(pass, matrices, Projection::kQkv, state.normed, state.qkv_raw, 0);
  if (arch.qk_norm) norm_heads(pass, weights, state);
  turn_heads(pass, state.qkv, Turn::kForward);

  const std::int64_t k_col = arch.q_width();
  const std::int64_t v_col = k_col + arch.kv_width();
  AttentionForward attention{.shape = attention_shape(arch, pass.layer_idx),
                             .segments = pass.batch->segments(),
                             .q = {state.qkv, 0},
                             .k = {state.qkv, k_col},
                             .v = {state.qkv, v_col},
                             .out = state.heads,
                             .log_sum_exp = state.log_sum_exp};
  if (cache != nullptr) {
    CHECK(attention.segments.size() == 1, "a cache is one document's");
    const AttentionSegment& segment = attention.segments.front();
    const std::int64_t past = segment.k_count - segment.q_count;
    copy_columns(stream, {cache->k.rows(past, segment.q_count), 0}, {state.qkv, k_col}, arch.kv_width());
    copy_columns(stream, {cache->v.rows(past, segment.q_count), 0}, {state.qkv, v_col}, arch.kv_width());
    attention.k = {cache->k, 0};
    attention.v = {cache->v, 0};
  }
  if (heads == HeadsAre::kComputed) attention_forward(stream, attention);
  project(pass, matrices, Projection::kOut, state.heads, state.out_raw, 0);
  if (arch.norm_after_attention) normalise(pass, state.out_raw, weights.norm_after_attention, {}, state.out);
}

TensorView take_mlp_mid(const Architecture& arch, const BlockSize& size, Workspace& workspace) {
  return workspace.take(size.dtype, {std::min(size.num_tokens, mlp_chunk_tokens(size.device)), arch.intermediate});
}

TensorView chunk_rows(const TensorView& rows, std::int64_t first_token, std::int64_t num_tokens) {
  const bool has_all = first_token + num_tokens <= rows.shape()[0];
  return rows.rows(has_all ? first_token : 0, num_tokens);
}

void activate(const BlockPass& pass, const MlpState& state) {
  activation_forward(*pass.stream,
                     {.activation = pass.arch->activation, .gating = pass.arch->gating, .x = state.up, .h = state.mid});
}

void run_mlp(const BlockPass& pass, const BlockMatrices& matrices, TensorView normed, const MlpState& state,
             TensorView out, std::int64_t first_token) {
  project(pass, matrices, Projection::kUp, normed, state.up, first_token);
  activate(pass, state);
  if (!out.bytes().empty()) project(pass, matrices, Projection::kDown, state.mid, out, first_token);
}

}  // namespace sluice
