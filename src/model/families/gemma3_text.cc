// SPDX-License-Identifier: Apache-2.0
// Gemma 3, the text part: Gemma 2 with normalised q and k, five windows to one full layer, and a rope for each kind.
#include <optional>
#include <utility>
#include <vector>

#include "model/config_parts.h"
#include "model/description.h"

namespace sluice {
namespace {

constexpr double kFullTheta = 1e6;
constexpr double kWindowTheta = 1e4;

// The full layers': rope_scaling, the older name, counts before rope_parameters, key by key.
ConfigReader read_full_settings(const ConfigReader& config, const std::optional<ConfigReader>& own) {
  nlohmann::json both = own ? own->json() : nlohmann::json{{"rope_type", "default"}};
  if (const auto older = config.find_object("rope_scaling")) both.update(older->json());
  return {config.where(), std::move(both)};
}

// One for full layers, one for windows.
std::vector<Rope> read_ropes(const ConfigReader& config, const Architecture& arch) {
  std::optional<ConfigReader> full;
  std::optional<ConfigReader> window;
  if (const auto both = config.find_object("rope_parameters")) {
    full = both->find_object("full_attention");
    window = both->find_object("sliding_attention");
  }
  constexpr RealRange kThetas{1.000001, 1e15};
  const RopeDefaults full_defaults{.theta = config.real_or("rope_theta", kFullTheta, kThetas),
                                   .of = RopeOf::kSomeLayers};
  const RopeDefaults window_defaults{.theta = config.real_or("rope_local_base_freq", kWindowTheta, kThetas),
                                     .of = RopeOf::kSomeLayers};
  const ConfigReader none(config.where(), nlohmann::json::object());
  return {read_rope_object(config, read_full_settings(config, full), arch, full_defaults),
          read_rope_object(config, window.value_or(none), arch, window_defaults)};
}

}  // namespace

ModelDescription describe_gemma3_text(const ConfigReader& config) {
  refuse_flag(config, "use_bidirectional_attention", "attention to later tokens");
  ModelDescription model;
  model.arch = read_gemma_like(config, 131072);
  model.names = gemma_names();
  model.arch.qk_norm = true;
  model.arch.ropes = read_ropes(config, model.arch);
  const auto pattern = static_cast<std::size_t>(config.int_or("sliding_window_pattern", 6, {1, 1 << 12}));
  std::vector<LayerSight> sights(model.arch.layers.size(), LayerSight::kWindow);
  for (std::size_t idx = pattern - 1; idx < sights.size(); idx += pattern) sights[idx] = LayerSight::kFull;
  set_windows(config, model.arch, read_layer_types(config, std::move(sights)));
  for (LayerKind& layer : model.arch.layers) layer.rope_idx = layer.window_tokens == 0 ? 0 : 1;
  return model;
}

}  // namespace sluice
