// SPDX-License-Identifier: Apache-2.0
// Qwen 2 and 2.5: Llama with biases on q, k and v, and windows in upper layers where asked for.
#include "model/config_parts.h"
#include "model/description.h"

namespace sluice {

ModelDescription describe_qwen2(const ConfigReader& config) {
  ModelDescription model;
  model.arch = read_llama_like(config, {.max_positions = 32768});
  model.arch.ropes = {read_rope(config, model.arch)};
  model.arch.activation = read_activation(config, "hidden_act", "silu");
  model.arch.qkv_bias = Biases::kPresent;
  model.arch.tied_head = config.flag_or("tie_word_embeddings", false);
  if (config.flag_or("use_sliding_window", false)) set_upper_windows(config, model.arch);
  return model;
}

}  // namespace sluice
