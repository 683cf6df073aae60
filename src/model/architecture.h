// SPDX-License-Identifier: Apache-2.0
// What a decoder-only language model computes, as data. One block forward and one block backward follow it; there is
// no class for a family. A family (families/) only says how its config.json fills this in and what its tensors are
// called. Mixture-of-experts will describe its MLP here too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/adapter.h"
#include "model/rope.h"
#include "ops/activation.h"
#include "ops/norm.h"

namespace sluice {

// Where a block adds to its residual.
enum class Residual : std::uint8_t {
  kSerial,          // x += attention(norm(x)); x += mlp(norm(x))
  kParallelShared,  // x += attention(n) + mlp(n), n = norm(x): Falcon 7B
  kParallel,        // x += attention(norm_a(x)) + mlp(norm_b(x)): Falcon 40B
};

enum class Biases : std::uint8_t { kNone, kPresent };

// What may differ from layer to layer.
struct LayerKind {
  std::int64_t window_tokens = 0;  // a token sees itself and this many less one before it; 0: all before it
  std::size_t rope_idx = 0;        // which of Architecture::ropes turns its heads
};

struct Architecture {
  std::string family;  // "llama", as in config.json's model_type

  std::int64_t hidden = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  std::vector<LayerKind> layers;

  NormKind norm = NormKind::kRms;
  float norm_eps = 1e-6F;
  Residual residual = Residual::kSerial;
  bool norm_after_attention = false;  // of the attention's output, before it joins the residual: Gemma 2 and 3
  bool norm_after_mlp = false;
  bool qk_norm = false;  // every head of q and k is normalised before it is turned

  Biases qkv_bias = Biases::kNone;
  Biases out_bias = Biases::kNone;
  Biases mlp_bias = Biases::kNone;

  float attention_scale = 1;
  float attention_soft_cap = 0;  // 0: none
  float logit_soft_cap = 0;      // 0: none

  Activation activation = Activation::kSilu;
  Gating gating = Gating::kGated;

  std::vector<Rope> ropes;             // empty: positions are learned
  std::int64_t learned_positions = 0;  // rows of the position table; 0: none
  std::int64_t position_offset = 0;    // position p is row p + this: OPT
  std::int64_t padding_id = -1;        // tokens with it add nothing to the embedding's gradient; -1: none
  float embedding_scale = 1;           // rounded to the weights' dtype before it is used
  bool tied_head = false;              // the head's matrix is the embedding
  // Rows of the embedding and of the head that make a slice: a large vocabulary streams like everything else. Losses
  // are summed range by range, so this is part of the numbers: it never depends on budgets.
  std::int64_t vocab_range_rows = 32768;

  Adapter adapter;  // what is trained beside the blocks' matrices, where not all weights are

  std::int64_t num_vocab_ranges() const { return (vocab + vocab_range_rows - 1) / vocab_range_rows; }
  std::int64_t num_layers() const { return static_cast<std::int64_t>(layers.size()); }
  std::int64_t q_width() const { return num_heads * head_dim; }
  std::int64_t kv_width() const { return num_kv_heads * head_dim; }
  std::int64_t qkv_width() const { return q_width() + 2 * kv_width(); }
  std::int64_t up_width() const { return gating == Gating::kGated ? 2 * intermediate : intermediate; }
};

}  // namespace sluice
