// SPDX-License-Identifier: Apache-2.0
// Qwen 3, dense: every head of q and k is normalised; biases only where asked for.
#include "model/config_parts.h"
#include "model/description.h"

namespace sluice {

ModelDescription describe_qwen3(const ConfigReader& config) {
  ModelDescription model;
  model.arch = read_llama_like(config, {.head_dim = 128, .max_positions = 32768});
  model.arch.ropes = {read_rope(config, model.arch)};
  model.arch.activation = read_activation(config, "hidden_act", "silu");
  model.arch.qk_norm = true;
  if (config.flag_or("attention_bias", false)) {
    model.arch.qkv_bias = Biases::kPresent;
    model.arch.out_bias = Biases::kPresent;
  }
  model.arch.tied_head = config.flag_or("tie_word_embeddings", false);
  if (config.flag_or("use_sliding_window", false)) set_upper_windows(config, model.arch);
  return model;
}

}  // namespace sluice
