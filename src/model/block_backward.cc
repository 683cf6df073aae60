// SPDX-License-Identifier: Apache-2.0
// The backward of a block, from its input: unless the forward has kept them, the attention branch is recomputed whole,
// the MLP chunk by chunk together with its gradient.
#include "model/block_parts.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/reduce.h"

namespace sluice {
namespace {

struct BackwardState {
  BlockAdapter adapter;
  Intermediates forward;
  TensorView mid;       // (chunk, intermediate)
  TensorView d_mid;     // (chunk, intermediate)
  TensorView d_out;     // (chunk, hidden), where there is a norm after the MLP
  TensorView d_normed;  // (tokens, hidden)
  TensorView d_branch;  // (tokens, hidden)
  TensorView d_heads;   // (tokens, q_width)
  TensorView d_qkv;     // (tokens, qkv_width)
};

BackwardState take_backward_state(const Architecture& arch, const BlockSize& size, std::optional<Workspace> kept,
                                  Workspace& workspace) {
  const auto [num_tokens, dtype, device] = size;
  const std::int64_t chunk = std::min(num_tokens, mlp_chunk_tokens(device));
  const Shape hidden{num_tokens, arch.hidden};
  BackwardState state{.adapter = BlockAdapter(arch, num_tokens, dtype, Keep::kForBackward, workspace)};
  state.forward = take_intermediates(arch, size, kept, workspace);
  state.mid = take_mlp_mid(arch, size, workspace);
  state.d_mid = workspace.take(dtype, {chunk, arch.intermediate});
  if (arch.norm_after_mlp) state.d_out = workspace.take(dtype, {chunk, arch.hidden});
  state.d_normed = workspace.take(dtype, hidden);
  state.d_branch = workspace.take(dtype, hidden);
  state.d_heads = workspace.take(dtype, {num_tokens, arch.q_width()});
  state.d_qkv = workspace.take(dtype, {num_tokens, arch.qkv_width()});
  return state;
}

class Backward {
 public:
  Backward(const BlockPass& pass, std::span<std::byte> gradients, Workspace& workspace)
      : pass_(pass),
        arch_(*pass.arch),
        stream_(*pass.stream),
        num_tokens_(pass.batch->num_tokens()),
        weights_(view_block(arch_, pass.weights, pass.dtype)),
        gradients_(arch_.adapter.exists() ? BlockViews() : view_block(arch_, gradients, DType::kF32)),
        adapter_gradients_(gradients),
        state_(take_backward_state(arch_, size_of(pass), kept_workspace(pass), workspace)),
        forward_(state_.forward),
        is_kept_(!pass.kept.empty()),
        matrices_{.weights = weights_, .adapter = state_.adapter} {
    if (!pass.attention.empty()) use_kept_attention(pass, state_.forward.attention);
    state_.adapter.pack(stream_, pass.adapter);
  }

  void run(TensorView x, TensorView dy, TensorView dx) {
    if (!is_kept_) recompute(x);
    mlp(dy);
    switch (arch_.residual) {
      case Residual::kSerial:
        // What reaches the residual between the branches goes on into both the attention and x.
        mlp_norm(forward_.mlp_input);
        add(stream_, state_.d_branch, state_.d_branch, dy);
        attention(state_.d_branch, dx);
        if (dx.bytes().empty()) return;
        attention_norm(x, state_.d_normed);
        add(stream_, dx, state_.d_normed, state_.d_branch);
        break;
      case Residual::kParallel:
        mlp_norm(x);
        attention(dy, dx);
        if (dx.bytes().empty()) return;
        attention_norm(x, state_.d_normed);
        add(stream_, state_.d_branch, state_.d_branch, state_.d_normed);
        add(stream_, dx, state_.d_branch, dy);
        break;
      case Residual::kParallelShared:
        copy_columns(stream_, {state_.d_branch, 0}, {state_.d_normed, 0}, arch_.hidden);
        attention(dy, dx);
        if (dx.bytes().empty()) return;
        add(stream_, state_.d_normed, state_.d_normed, state_.d_branch);
        attention_norm(x, state_.d_normed);
        add(stream_, dx, state_.d_normed, dy);
        break;
    }
  }

 private:
  void recompute(TensorView x) {
    run_attention(pass_, matrices_, x, forward_.attention, nullptr,
                  pass_.attention.empty() ? HeadsAre::kComputed : HeadsAre::kKept);
    if (arch_.residual == Residual::kSerial) add(stream_, forward_.mlp_input, x, forward_.attention.out);
    const TensorView input = arch_.residual == Residual::kSerial ? forward_.mlp_input : x;
    if (arch_.residual != Residual::kParallelShared) {
      normalise(pass_, input, weights_.mlp_norm, weights_.mlp_norm_bias, forward_.mlp_normed);
    }
  }

  // The backward of project(): the gradients of what is trained, and dx where it is wanted.
  void project_backward(Projection projection, TensorView x, TensorView dy, TensorView dx, std::int64_t first_token) {
    const TensorView d_weight = gradients_.matrix(projection);
    const TensorView d_bias = gradients_.bias(projection);
    if (!d_weight.bytes().empty()) {
      gemm(stream_, {.a = dy, .b = x, .c = d_weight, .transpose_a = Transpose::kYes, .into = Into::kAdd});
    }
    if (!d_bias.bytes().empty()) add_column_sums(stream_, d_bias, dy);
    if (!dx.bytes().empty()) gemm(stream_, {.a = dy, .b = weights_.matrix(projection), .c = dx});
    state_.adapter.backward(stream_, projection, adapter_gradients_, x, dy, dx, first_token);
  }

  void norm(TensorView x, TensorView weight, TensorView dy, TensorView dx, TensorView d_weight, TensorView d_bias) {
    norm_backward(stream_, {.kind = arch_.norm,
                            .eps = arch_.norm_eps,
                            .x = x,
                            .weight = weight,
                            .dy = dy,
                            .dx = dx,
                            .dweight = d_weight,
                            .dbias = d_bias});
  }

  // d_normed = the gradient of what the MLP read.
  void mlp(TensorView dy) {
    const TensorView all_normed =
        arch_.residual == Residual::kParallelShared ? forward_.attention.normed : forward_.mlp_normed;
    for_each_chunk(num_tokens_, mlp_chunk_tokens(stream_.kind()), [&](std::int64_t first, std::int64_t count) {
      const TensorView normed = all_normed.rows(first, count);
      const MlpState mid{.up = chunk_rows(forward_.up, first, count), .mid = state_.mid.rows(0, count)};
      const TensorView out = arch_.norm_after_mlp ? chunk_rows(forward_.mlp_out, first, count) : TensorView();
      if (is_kept_) {
        activate(pass_, mid);
      } else {
        run_mlp(pass_, matrices_, normed, mid, out, first);
      }
      TensorView d_out = dy.rows(first, count);
      if (arch_.norm_after_mlp) {
        const TensorView before_norm = state_.d_out.rows(0, count);
        norm(out, weights_.norm_after_mlp, d_out, before_norm, gradients_.norm_after_mlp, {});
        d_out = before_norm;
      }
      const TensorView d_mid = state_.d_mid.rows(0, count);
      project_backward(Projection::kDown, mid.mid, d_out, d_mid, first);
      activation_backward(
          stream_, {.activation = arch_.activation, .gating = arch_.gating, .x = mid.up, .dh = d_mid, .dx = mid.up});
      project_backward(Projection::kUp, normed, mid.up, state_.d_normed.rows(first, count), first);
    });
  }

  // d_branch = the gradient of what the norm before the MLP read.
  void mlp_norm(TensorView x) {
    norm(x, weights_.mlp_norm, state_.d_normed, state_.d_branch, gradients_.mlp_norm, gradients_.mlp_norm_bias);
  }

  // d_normed = the gradient of what the attention read, where the block's dx is wanted.
  void attention(TensorView d_out, const TensorView& dx) {
    const AttentionState& forward = forward_.attention;
    TensorView d_raw = d_out;
    if (arch_.norm_after_attention) {
      d_raw = forward.out;  // what joined the residual is no longer needed
      norm(forward.out_raw, weights_.norm_after_attention, d_out, d_raw, gradients_.norm_after_attention, {});
    }
    project_backward(Projection::kOut, forward.heads, d_raw, state_.d_heads, 0);

    const std::int64_t k_col = arch_.q_width();
    const std::int64_t v_col = k_col + arch_.kv_width();
    attention_backward(stream_, {.shape = attention_shape(arch_, pass_.layer_idx),
                                 .segments = pass_.batch->segments(),
                                 .q = {forward.qkv, 0},
                                 .k = {forward.qkv, k_col},
                                 .v = {forward.qkv, v_col},
                                 .out = forward.heads,
                                 .log_sum_exp = forward.log_sum_exp,
                                 .dout = state_.d_heads,
                                 .dq = {state_.d_qkv, 0},
                                 .dk = {state_.d_qkv, k_col},
                                 .dv = {state_.d_qkv, v_col}});
    turn_heads(pass_, state_.d_qkv, Turn::kBackward);
    if (arch_.qk_norm) head_norms();
    const bool wanted = !dx.bytes().empty();
    project_backward(Projection::kQkv, forward.normed, state_.d_qkv, wanted ? state_.d_normed : TensorView(), 0);
  }

  void head_norms() {
    NormBackward args{.kind = arch_.norm,
                      .eps = arch_.norm_eps,
                      .x = forward_.attention.qkv_raw,
                      .weight = weights_.q_norm,
                      .dy = state_.d_qkv,
                      .dx = state_.d_qkv,
                      .dweight = gradients_.q_norm,
                      .columns = {.first_col = 0, .num_runs = arch_.num_heads}};
    norm_backward(stream_, args);
    args.weight = weights_.k_norm;
    args.dweight = gradients_.k_norm;
    args.columns = {.first_col = arch_.q_width(), .num_runs = arch_.num_kv_heads};
    norm_backward(stream_, args);
  }

  // In place: from the gradient of the norm's output to that of its input.
  void attention_norm(TensorView x, TensorView d_normed) {
    norm(x, weights_.attention_norm, d_normed, d_normed, gradients_.attention_norm, gradients_.attention_norm_bias);
  }

  const BlockPass& pass_;
  const Architecture& arch_;
  Stream& stream_;
  std::int64_t num_tokens_;
  BlockViews weights_;
  BlockViews gradients_;  // of the slice; empty where an adapter is trained
  std::span<std::byte> adapter_gradients_;
  BackwardState state_;
  const Intermediates& forward_;
  bool is_kept_;  // the forward's intermediates are there
  BlockMatrices matrices_;
};

}  // namespace

std::uint64_t block_backward_workspace_bytes(const Architecture& arch, const BlockSize& size) {
  Workspace counting;
  take_backward_state(arch, size, std::nullopt, counting);
  return counting.used_bytes();
}

void block_backward(const BlockPass& pass, std::span<std::byte> gradients, TensorView x, TensorView dy, TensorView dx,
                    Workspace workspace) {
  Backward(pass, gradients, workspace).run(x, dy, dx);
}

}  // namespace sluice
