// SPDX-License-Identifier: Apache-2.0
// The steps that a block's forward and backward share: its weights by name, its two branches, their memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "model/block.h"
#include "model/token_chunks.h"
#include "ops/gemm.h"
#include "ops/rotary.h"

namespace sluice {

// Views of a block's parameters in its weights or in its gradients.
struct BlockViews {
  TensorView attention_norm, attention_norm_bias;
  TensorView qkv, qkv_bias, q_norm, k_norm;
  TensorView out, out_bias, norm_after_attention;
  TensorView mlp_norm, mlp_norm_bias;
  TensorView up, up_bias, down, down_bias, norm_after_mlp;

  TensorView matrix(Projection projection) const;
  TensorView bias(Projection projection) const;
};
BlockViews view_block(const Architecture& arch, std::span<std::byte> slice, DType dtype);

// What a block's projections multiply with; borrowed.
struct BlockMatrices {
  const BlockViews& weights;
  const BlockAdapter& adapter;
};

// What the attention branch leaves behind.
struct AttentionState {
  TensorView normed;       // (tokens, hidden): its input
  TensorView qkv_raw;      // (tokens, qkv_width), before q and k are normalised; the same as qkv where they are not
  TensorView qkv;          // turned
  TensorView heads;        // (tokens, q_width): attention's output
  TensorView log_sum_exp;  // (heads, tokens) f32; backward alone
  TensorView out_raw;      // (tokens, hidden), before the norm after it; the same as out where there is none
  TensorView out;          // (tokens, hidden): what joins the residual
};

// The forward's own, without what only a backward reads.
AttentionState take_attention_state(const Architecture& arch, std::int64_t num_tokens, DType dtype,
                                    Workspace& workspace);
enum class HeadsAre : bool { kComputed, kKept };
void run_attention(const BlockPass& pass, const BlockMatrices& matrices, TensorView x, const AttentionState& state,
                   const KvCache* cache, HeadsAre heads = HeadsAre::kComputed);
// The pass keeps them elsewhere.
void use_kept_attention(const BlockPass& pass, AttentionState& state);
// Queries and keys, by their positions or back.
void turn_heads(const BlockPass& pass, TensorView qkv, Turn turn);
AttentionShape attention_shape(const Architecture& arch, std::int64_t layer_idx);

// What a backward reads of the forward, besides the block's input.
struct Intermediates {
  AttentionState attention;
  TensorView mlp_input;   // (tokens, hidden): what the norm before the MLP reads, where that is not the block's input
  TensorView mlp_normed;  // (tokens, hidden), where it is not the attention's
  TensorView up;          // (tokens, up_width), or of a chunk
  TensorView mlp_out;     // (tokens, hidden), or of a chunk: before the norm after the MLP, where there is one
};
// In the workspace, where the MLP's are those of a chunk; or all of them in `kept`, but for what joins the residual.
Intermediates take_intermediates(const Architecture& arch, const BlockSize& size, std::optional<Workspace>& kept,
                                 Workspace& workspace);
// The memory that a pass was given for them.
std::optional<Workspace> kept_workspace(const BlockPass& pass);

// A chunk of the MLP's middle.
struct MlpState {
  TensorView up;   // (chunk, up_width)
  TensorView mid;  // (chunk, intermediate)
};
TensorView take_mlp_mid(const Architecture& arch, const BlockSize& size, Workspace& workspace);
BlockSize size_of(const BlockPass& pass);
// The rows of a chunk, in memory for all tokens or for a chunk at a time.
TensorView chunk_rows(const TensorView& rows, std::int64_t first_token, std::int64_t num_tokens);
// up and mid of `normed`, and, unless `out` is default-constructed, what the MLP gives before the norm after it.
// first_token: that of the chunk.
void run_mlp(const BlockPass& pass, const BlockMatrices& matrices, TensorView normed, const MlpState& state,
             TensorView out, std::int64_t first_token);
// mid of up.
void activate(const BlockPass& pass, const MlpState& state);

// y = x Wᵀ + bias, and what the adapter adds.
void project(const BlockPass& pass, const BlockMatrices& matrices, Projection projection, TensorView x, TensorView y,
             std::int64_t first_token);

void normalise(const BlockPass& pass, TensorView x, TensorView weight, TensorView bias, TensorView y);

// first_token, num_tokens for each chunk.
template <typename Visit>
void for_each_chunk(std::int64_t num_tokens, std::int64_t chunk_tokens, Visit visit) {
  for (std::int64_t first = 0; first < num_tokens; first += chunk_tokens) {
    visit(first, std::min(chunk_tokens, num_tokens - first));
  }
}

}  // namespace sluice
