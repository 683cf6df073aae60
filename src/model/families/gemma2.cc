// SPDX-License-Identifier: Apache-2.0
// Gemma 2: norms before and after each part, soft caps, a window in every other layer.
#include "model/config_parts.h"
#include "model/description.h"

namespace sluice {

ModelDescription describe_gemma2(const ConfigReader& config) {
  ModelDescription model;
  model.arch = read_gemma_like(config);
  model.names = gemma_names();
  // Null means none, as everywhere; without the key, Gemma 2 has its own.
  if (!config.json().contains("attn_logit_softcapping")) model.arch.attention_soft_cap = 50;
  if (!config.json().contains("final_logit_softcapping")) model.arch.logit_soft_cap = 30;
  model.arch.ropes = {read_rope(config, model.arch.head_dim, 10000)};
  std::vector<LayerSight> every_other(model.arch.layers.size(), LayerSight::kFull);
  for (std::size_t idx = 0; idx < every_other.size(); idx += 2) every_other[idx] = LayerSight::kWindow;
  set_windows(config, model.arch, read_layer_types(config, std::move(every_other)));
  return model;
}

}  // namespace sluice
