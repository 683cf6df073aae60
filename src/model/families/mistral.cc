// SPDX-License-Identifier: Apache-2.0
// Mistral 7B to Small and Large: Llama, with a window in every layer where the config names one.
#include "model/config_parts.h"
#include "model/description.h"

namespace sluice {

ModelDescription describe_mistral(const ConfigReader& config) {
  ModelDescription model;
  model.arch = read_llama_like(config, {.max_positions = 131072});
  model.arch.ropes = {read_rope(config, model.arch)};
  model.arch.activation = read_activation(config, "hidden_act", "silu");
  model.arch.tied_head = config.flag_or("tie_word_embeddings", false);
  for (LayerKind& layer : model.arch.layers) layer.window_tokens = read_window(config);
  return model;
}

}  // namespace sluice
