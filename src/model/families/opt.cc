// SPDX-License-Identifier: Apache-2.0
// OPT: LayerNorm, learned positions, biases everywhere, a plain MLP with ReLU.
#include <fmt/format.h>

#include "base/error.h"
#include "model/config_parts.h"
#include "model/description.h"

namespace sluice {

ModelDescription describe_opt(const ConfigReader& config) {
  ModelDescription model;
  Architecture& arch = model.arch;
  arch = read_llama_like(config, {.padding_id = 1});
  if (!config.flag_or("do_layer_norm_before", true)) {
    throw InvalidInput(
        fmt::format("{}: do_layer_norm_before is false (OPT-350m): norms after the residual are not "
                    "supported by Sluice",
                    config.where()));
  }
  if (config.int_or("word_embed_proj_dim", arch.hidden) != arch.hidden) {
    throw InvalidInput(
        fmt::format("{}: word_embed_proj_dim differs from hidden_size: projected embeddings are not "
                    "supported by Sluice",
                    config.where()));
  }
  refuse_flag(config, "_remove_final_layer_norm", "a model without its final norm");
  if (!config.flag_or("layer_norm_elementwise_affine", true)) {
    config.fail("layer_norm_elementwise_affine", "true: Sluice does not do norms without weights");
  }
  arch.intermediate = config.require_int("ffn_dim", 1, 1 << 22);
  arch.norm = NormKind::kLayer;
  arch.norm_eps = 1e-5F;
  if (config.flag_or("enable_bias", true)) {
    arch.qkv_bias = Biases::kPresent;
    arch.out_bias = Biases::kPresent;
    arch.mlp_bias = Biases::kPresent;
  }
  arch.activation = read_activation(config, "activation_function", "relu");
  arch.gating = Gating::kPlain;
  arch.position_offset = 2;
  arch.learned_positions = arch.max_positions + arch.position_offset;
  arch.tied_head = config.flag_or("tie_word_embeddings", true);

  TensorNames& names = model.names;
  names.embedding = "model.decoder.embed_tokens";
  names.positions = "model.decoder.embed_positions";
  names.block_prefix = "model.decoder.layers.{}.";
  names.attention_norm = "self_attn_layer_norm";
  names.out = "self_attn.out_proj";
  names.mlp_norm = "final_layer_norm";
  names.up = {"fc1"};
  names.down = "fc2";
  names.final_norm = "model.decoder.final_layer_norm";
  return model;
}

}  // namespace sluice
