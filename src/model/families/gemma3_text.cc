// SPDX-License-Identifier: Apache-2.0
// Gemma 3, the text part: Gemma 2 with normalised q and k, five windows to one full layer, and a rope for each kind.
#include "model/config_parts.h"
#include "model/description.h"

namespace sluice {
namespace {

constexpr double kFullTheta = 1e6;
constexpr double kWindowTheta = 1e4;

// One for full layers, one for windows.
std::vector<Rope> read_ropes(const ConfigReader& config, std::int64_t head_dim) {
  const ConfigReader none(config.where(), nlohmann::json::object());
  const double full_theta = config.real_or("rope_theta", kFullTheta, {1.000001, 1e15});
  const double window_theta = config.real_or("rope_local_base_freq", kWindowTheta, {1.000001, 1e15});
  if (const auto both = config.find_object("rope_parameters")) {
    return {read_rope_object(config, both->find_object("full_attention").value_or(none), head_dim, full_theta),
            read_rope_object(config, both->find_object("sliding_attention").value_or(none), head_dim, window_theta)};
  }
  return {read_rope_object(config, config.find_object("rope_scaling").value_or(none), head_dim, full_theta),
          read_rope_object(config, none, head_dim, window_theta)};
}

}  // namespace

ModelDescription describe_gemma3_text(const ConfigReader& config) {
  refuse_flag(config, "use_bidirectional_attention", "attention to later tokens");
  ModelDescription model;
  model.arch = read_gemma_like(config);
  model.names = gemma_names();
  model.arch.qk_norm = true;
  model.arch.ropes = read_ropes(config, model.arch.head_dim);
  const auto pattern = static_cast<std::size_t>(config.int_or("sliding_window_pattern", 6, {1, 1 << 12}));
  std::vector<LayerSight> sights(model.arch.layers.size(), LayerSight::kWindow);
  for (std::size_t idx = pattern - 1; idx < sights.size(); idx += pattern) sights[idx] = LayerSight::kFull;
  set_windows(config, model.arch, read_layer_types(config, std::move(sights)));
  for (LayerKind& layer : model.arch.layers) layer.rope_idx = layer.window_tokens == 0 ? 0 : 1;
  return model;
}

}  // namespace sluice
