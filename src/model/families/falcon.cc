// SPDX-License-Identifier: Apache-2.0
// Falcon 7B (one kv head, one norm for attention and MLP side by side), 40B and 180B (groups, a norm for each), 11B.
#include <fmt/format.h>

#include "base/error.h"
#include "model/config_parts.h"
#include "model/description.h"

namespace sluice {
namespace {

Residual read_residual(const ConfigReader& config) {
  const bool grouped = config.flag_or("new_decoder_architecture", false);
  const std::int64_t num_norms = config.int_or("num_ln_in_parallel_attn", grouped ? 2 : 1, {1, 2});
  if (grouped && num_norms == 2) return Residual::kParallel;
  return config.flag_or("parallel_attn", true) ? Residual::kParallelShared : Residual::kSerial;
}

}  // namespace

ModelDescription describe_falcon(const ConfigReader& config) {
  refuse_flag(config, "alibi", "attention with ALiBi biases (Falcon-RW)");
  ModelDescription model;
  Architecture& arch = model.arch;
  arch = read_llama_like(config);
  arch.padding_id = -1;  // Falcon's embedding has none
  const bool grouped = config.flag_or("new_decoder_architecture", false);
  const bool multi_query = !grouped && config.flag_or("multi_query", true);
  arch.num_kv_heads = multi_query ? 1 : config.int_or("num_kv_heads", arch.num_heads, {1, 1 << 20});
  arch.intermediate = config.int_or("ffn_hidden_size", 4 * arch.hidden, {1, 1 << 22});
  arch.norm = NormKind::kLayer;
  arch.norm_eps = static_cast<float>(config.real_or("layer_norm_epsilon", 1e-5, {0, 1}));
  arch.residual = read_residual(config);
  if (config.flag_or("bias", false)) {
    arch.qkv_bias = Biases::kPresent;
    arch.out_bias = Biases::kPresent;
    arch.mlp_bias = Biases::kPresent;
  }
  arch.activation = read_activation(config, "activation", "gelu");
  arch.gating = Gating::kPlain;
  arch.ropes = {read_rope(config, arch)};
  arch.tied_head = config.flag_or("tie_word_embeddings", true);

  TensorNames& names = model.names;
  names.embedding = "transformer.word_embeddings";
  names.block_prefix = "transformer.h.{}.";
  names.attention_norm = arch.residual == Residual::kParallel ? "ln_attn" : "input_layernorm";
  names.mlp_norm = arch.residual == Residual::kParallel ? "ln_mlp" : "post_attention_layernorm";
  names.qkv = {"self_attention.query_key_value"};
  names.qkv_rows = multi_query ? QkvRows::kQThenKThenV : QkvRows::kByKvHead;
  names.out = "self_attention.dense";
  names.up = {"mlp.dense_h_to_4h"};
  names.down = "mlp.dense_4h_to_h";
  names.final_norm = "transformer.ln_f";
  return model;
}

}  // namespace sluice
