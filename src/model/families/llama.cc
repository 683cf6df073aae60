// SPDX-License-Identifier: Apache-2.0
// Llama 1 to 3.3, and the many models that took its shape.
#include "model/config_parts.h"
#include "model/description.h"

namespace sluice {

ModelDescription describe_llama(const ConfigReader& config) {
  ModelDescription model;
  model.arch = read_llama_like(config);
  model.arch.ropes = {read_rope(config, model.arch)};
  model.arch.activation = read_activation(config, "hidden_act", "silu");
  if (config.flag_or("attention_bias", false)) {
    model.arch.qkv_bias = Biases::kPresent;
    model.arch.out_bias = Biases::kPresent;
  }
  if (config.flag_or("mlp_bias", false)) model.arch.mlp_bias = Biases::kPresent;
  model.arch.tied_head = config.flag_or("tie_word_embeddings", false);
  return model;
}

}  // namespace sluice
