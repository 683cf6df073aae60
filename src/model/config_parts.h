// SPDX-License-Identifier: Apache-2.0
// What families' configs have in common, so that a family's file says only what is its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/hf_config.h"
#include "model/architecture.h"
#include "model/description.h"

namespace sluice {

// Sizes by the keys that most families share (hidden_size, num_hidden_layers, num_attention_heads,
// num_key_value_heads, head_dim, intermediate_size, vocab_size, max_position_embeddings), rms_norm_eps, the scale of
// attention by head_dim, pad_token_id, layers that all see everything.
struct SizeDefaults {
  std::int64_t head_dim = 0;  // 0: hidden_size over heads
  std::int64_t max_positions = 2048;
  std::optional<std::int64_t> padding_id;  // pad_token_id where the config has no such key
};
Architecture read_llama_like(const ConfigReader& config, const SizeDefaults& defaults = {});

// What Gemma 2 and 3 share: norms before and after, 1 + weight, scaled and tied embeddings, a soft cap of logits.
Architecture read_gemma_like(const ConfigReader& config, std::int64_t max_positions);  // where the config is silent
TensorNames gemma_names();

// Checks what sizes must have to each other; every family's last step.
void require_sound(const ConfigReader& config, const Architecture& arch);

enum class Turned : std::uint8_t { kWhole, kPart };  // heads, or of each as much as partial_rotary_factor says
enum class Scalings : std::uint8_t { kAll, kLongRopeOnly };
enum class RopeOf : std::uint8_t { kModel, kSomeLayers };  // whether the model's original context is the rope's
struct RopeDefaults {
  double theta = 10000;
  Turned turned = Turned::kWhole;
  Scalings scalings = Scalings::kAll;
  RopeOf of = RopeOf::kModel;
  std::optional<std::int64_t> original_positions;  // where the family's config always has them
};
// `rope_parameters` (transformers 5), or rope_theta and rope_scaling (before it).
Rope read_rope(const ConfigReader& config, const Architecture& arch, RopeDefaults defaults = {});
// The same from one of these objects.
Rope read_rope_object(const ConfigReader& config, const ConfigReader& settings, const Architecture& arch,
                      const RopeDefaults& defaults);
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
