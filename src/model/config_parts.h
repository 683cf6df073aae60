// SPDX-License-Identifier: Apache-2.0
// What families' configs have in common, so that a family's file says only what is its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/hf_config.h"
#include "model/architecture.h"
#include "model/description.h"

namespace sluice {

// Sizes by the keys that most families share (hidden_size, num_hidden_layers, num_attention_heads,
// num_key_value_heads, head_dim, intermediate_size, vocab_size, max_position_embeddings), rms_norm_eps, the scale of
// attention by head_dim, one rope with default theta 10000, layers that all see everything.
// Where head_dim is absent it is default_head_dim, or hidden_size over heads where that is 0.
Architecture read_llama_like(const ConfigReader& config, std::int64_t default_head_dim = 0);

// What Gemma 2 and 3 share: norms before and after, 1 + weight, scaled and tied embeddings, soft caps.
Architecture read_gemma_like(const ConfigReader& config);
TensorNames gemma_names();

// Checks what sizes must have to each other; every family's last step.
void require_sound(const ConfigReader& config, const Architecture& arch);

// `rope_parameters` (transformers 5), or rope_theta and rope_scaling (before it).
Rope read_rope(const ConfigReader& config, std::int64_t head_dim, double default_theta);
// The same from one of these objects; `theta` where it names none.
Rope read_rope_object(const ConfigReader& config, const ConfigReader& settings, std::int64_t head_dim, double theta);

// Which layers see a window only: `layer_types` where the config has it, else `otherwise`.
enum class LayerSight : std::uint8_t { kFull, kWindow };
std::vector<LayerSight> read_layer_types(const ConfigReader& config, std::vector<LayerSight> otherwise);

// Gives layers that see a window the config's sliding_window.
void set_windows(const ConfigReader& config, Architecture& arch, const std::vector<LayerSight>& sights);
// Qwen's way: layers from max_window_layers on see a window, unless layer_types says otherwise.
void set_upper_windows(const ConfigReader& config, Architecture& arch);

// The config's sliding_window: `otherwise` where it has no such key, 0 where it is null, as transformers reads it.
std::int64_t read_window(const ConfigReader& config, std::int64_t otherwise = 4096);

Activation read_activation(const ConfigReader& config, const std::string& key, const std::string& otherwise);

// Refuses a feature that changes the numbers and that Sluice does not do, unless the key is absent or off.
void refuse_flag(const ConfigReader& config, const std::string& key, const std::string& what);

}  // namespace sluice
