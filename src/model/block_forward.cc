// SPDX-License-Identifier: Apache-2.0
#include "model/block_parts.h"
#include "ops/elementwise.h"

namespace sluice {
namespace {

struct ForwardState {
  BlockAdapter adapter;
  AttentionState attention;
  TensorView residual;  // (tokens, hidden): x after the attention joined it
  MlpState mlp;
  TensorView mlp_normed;  // (chunk, hidden)
  TensorView mlp_out;     // (chunk, hidden)
};

ForwardState take_forward_state(const Architecture& arch, std::int64_t num_tokens, DType dtype, Workspace& workspace) {
  const std::int64_t chunk = std::min(num_tokens, kMlpChunkTokens);
  ForwardState state{.adapter = BlockAdapter(arch, num_tokens, dtype, Keep::kForForward, workspace)};
  state.attention = take_attention_state(arch, num_tokens, dtype, Keep::kForForward, workspace);
  state.residual = workspace.take(dtype, {num_tokens, arch.hidden});
  state.mlp = take_mlp_state(arch, num_tokens, dtype, workspace);
  state.mlp_normed = workspace.take(dtype, {chunk, arch.hidden});
  state.mlp_out = workspace.take(dtype, {chunk, arch.hidden});
  return state;
}

}  // namespace

std::uint64_t block_forward_workspace_bytes(const Architecture& arch, std::int64_t num_tokens, DType dtype) {
  Workspace counting;
  take_forward_state(arch, num_tokens, dtype, counting);
  return counting.used_bytes();
}

void block_forward(const BlockPass& pass, TensorView x, TensorView y, Workspace workspace, const KvCache* cache) {
  const Architecture& arch = *pass.arch;
  Stream& stream = *pass.stream;
  const std::int64_t num_tokens = pass.batch->num_tokens();
  const BlockViews weights = view_block(arch, pass.weights, pass.dtype);
  ForwardState state = take_forward_state(arch, num_tokens, pass.dtype, workspace);
  state.adapter.pack(stream, pass.adapter);
  const BlockMatrices matrices{.weights = weights, .adapter = state.adapter};
  run_attention(pass, matrices, x, state.attention, cache);
  add(stream, state.residual, x, state.attention.out);
  for_each_chunk(num_tokens, kMlpChunkTokens, [&](std::int64_t first, std::int64_t count) {
    TensorView normed = state.mlp_normed.rows(0, count);
    const TensorView out = state.mlp_out.rows(0, count);
    switch (arch.residual) {
      case Residual::kSerial:
        normalise(pass, state.residual.rows(first, count), weights.mlp_norm, weights.mlp_norm_bias, normed);
        break;
      case Residual::kParallel:
        normalise(pass, x.rows(first, count), weights.mlp_norm, weights.mlp_norm_bias, normed);
        break;
      case Residual::kParallelShared:
        normed = state.attention.normed.rows(first, count);
        break;
    }
    run_mlp(pass, matrices, normed, first_rows(state.mlp, count), out, first);
    if (arch.norm_after_mlp) normalise(pass, out, weights.norm_after_mlp, {}, out);
    add(stream, y.rows(first, count), state.residual.rows(first, count), out);
  });
}

}  // namespace sluice
