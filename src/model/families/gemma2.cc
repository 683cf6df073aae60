// SPDX-License-Identifier: Apache-2.0
// Gemma 2: norms before and after each part, soft caps, a window in every other layer.
#include "model/config_parts.h"
#include "model/description.h"

namespace sluice {

ModelDescription describe_gemma2(const ConfigReader& config) {
  refuse_flag(config, "use_bidirectional_attention", "attention to later tokens");
  ModelDescription model;
  model.arch = read_gemma_like(config, 8192);
  model.names = gemma_names();
  // Null means none, as everywhere; without the key, Gemma 2 has its own.
  const bool has_cap = config.json().contains("attn_logit_softcapping");
  model.arch.attention_soft_cap =
      static_cast<float>(config.real_or("attn_logit_softcapping", has_cap ? 0 : 50, {0, 1e9}));
  if (!config.json().contains("final_logit_softcapping")) model.arch.logit_soft_cap = 30;
  model.arch.ropes = {read_rope(config, model.arch)};
  std::vector<LayerSight> every_other(model.arch.layers.size(), LayerSight::kFull);
  for (std::size_t idx = 0; idx < every_other.size(); idx += 2) every_other[idx] = LayerSight::kWindow;
  set_windows(config, model.arch, read_layer_types(config, std::move(every_other)));
  return model;
}

}  // namespace sluice
