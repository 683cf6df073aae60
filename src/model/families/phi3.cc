// SPDX-License-Identifier: Apache-2.0
// Phi-3, Phi-3.5 and Phi-4: Llama with q, k, v in one matrix and gate, up in another, longrope, partial rotary.
#include "model/config_parts.h"
#include "model/description.h"

namespace sluice {

namespace {

constexpr std::int64_t kPositions = 4096;

}  // namespace

ModelDescription describe_phi3(const ConfigReader& config) {
  ModelDescription model;
  model.arch = read_llama_like(config, {.max_positions = kPositions, .padding_id = 32000});
  model.arch.norm_eps = static_cast<float>(config.real_or("rms_norm_eps", 1e-5, {0, 1}));
  model.arch.ropes = {
      read_rope(config, model.arch,
                {.turned = Turned::kPart, .scalings = Scalings::kLongRopeOnly, .original_positions = kPositions})};
  model.arch.activation = read_activation(config, "hidden_act", "silu");
  model.arch.tied_head = config.flag_or("tie_word_embeddings", false);
  for (LayerKind& layer : model.arch.layers) layer.window_tokens = read_window(config, 0);
  model.names.qkv = {"self_attn.qkv_proj"};
  model.names.up = {"mlp.gate_up_proj"};
  return model;
}

}  // namespace sluice
