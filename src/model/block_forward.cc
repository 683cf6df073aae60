// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"
#include "model/block_parts.h"
#include "ops/elementwise.h"

namespace sluice {
namespace {

// Of the MLP's parts, those that are kept are there for all tokens, the rest for a chunk.
struct ForwardState {
  BlockAdapter adapter;
  AttentionState attention;
  TensorView residual;     // (tokens, hidden): x after the attention joined it
  TensorView mlp_normed;   // (rows, hidden), where it is not the attention's
  TensorView up;           // (rows, up_width)
  TensorView mid;          // (chunk, intermediate)
  TensorView mlp_out;      // (chunk, hidden): what joins the residual
  TensorView mlp_out_raw;  // (rows, hidden), before the norm after it; the same as mlp_out where there is none
};

ForwardState take_forward_state(const Architecture& arch, const BlockSize& size, std::optional<Workspace> kept,
                                Workspace& workspace) {
  const auto [num_tokens, dtype, device] = size;
  const std::int64_t chunk = std::min(num_tokens, mlp_chunk_tokens(device));
  const Shape hidden{num_tokens, arch.hidden};
  ForwardState state{.adapter = BlockAdapter(arch, num_tokens, dtype, Keep::kForForward, workspace)};
  state.mid = take_mlp_mid(arch, size, workspace);
  state.mlp_out = workspace.take(dtype, {chunk, arch.hidden});
  if (kept) {
    const Intermediates forward = take_intermediates(arch, size, kept, workspace);
    state.attention = forward.attention;
    state.residual = arch.residual == Residual::kSerial ? forward.mlp_input : workspace.take(dtype, hidden);
    state.mlp_normed = forward.mlp_normed;
    state.up = forward.up;
    state.mlp_out_raw = arch.norm_after_mlp ? forward.mlp_out : state.mlp_out;
  } else {
    state.attention = take_attention_state(arch, num_tokens, dtype, workspace);
    state.residual = workspace.take(dtype, hidden);
    if (arch.residual != Residual::kParallelShared) state.mlp_normed = workspace.take(dtype, {chunk, arch.hidden});
    state.up = workspace.take(dtype, {chunk, arch.up_width()});
    state.mlp_out_raw = state.mlp_out;
  }
  return state;
}

}  // namespace

std::uint64_t block_forward_workspace_bytes(const Architecture& arch, const BlockSize& size) {
  Workspace counting;
  take_forward_state(arch, size, std::nullopt, counting);
  return counting.used_bytes();
}

void block_forward(const BlockPass& pass, TensorView x, TensorView y, Workspace workspace, const KvCache* cache) {
  const Architecture& arch = *pass.arch;
  Stream& stream = *pass.stream;
  const std::int64_t num_tokens = pass.batch->num_tokens();
  const BlockViews weights = view_block(arch, pass.weights, pass.dtype);
  CHECK(cache == nullptr || pass.kept.empty(), "a backward knows of no earlier tokens");
  ForwardState state = take_forward_state(arch, size_of(pass), kept_workspace(pass), workspace);
  if (!pass.attention.empty()) use_kept_attention(pass, state.attention);
  state.adapter.pack(stream, pass.adapter);
  const BlockMatrices matrices{.weights = weights, .adapter = state.adapter};
  run_attention(pass, matrices, x, state.attention, cache);
  add(stream, state.residual, x, state.attention.out);
  for_each_chunk(num_tokens, mlp_chunk_tokens(stream.kind()), [&](std::int64_t first, std::int64_t count) {
    const bool is_shared = arch.residual == Residual::kParallelShared;
    const TensorView normed =
        is_shared ? state.attention.normed.rows(first, count) : chunk_rows(state.mlp_normed, first, count);
    if (!is_shared) {
      const TensorView input = arch.residual == Residual::kSerial ? state.residual : x;
      normalise(pass, input.rows(first, count), weights.mlp_norm, weights.mlp_norm_bias, normed);
    }
    const MlpState mlp{.up = chunk_rows(state.up, first, count), .mid = state.mid.rows(0, count)};
    const TensorView raw = chunk_rows(state.mlp_out_raw, first, count);
    const TensorView out = state.mlp_out.rows(0, count);
    run_mlp(pass, matrices, normed, mlp, raw, first);
    if (arch.norm_after_mlp) normalise(pass, raw, weights.norm_after_mlp, {}, out);
    add(stream, y.rows(first, count), state.residual.rows(first, count), out);
  });
}

}  // namespace sluice
