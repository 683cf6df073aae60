// SPDX-License-Identifier: Apache-2.0
#include "train/config_adapter.h"

#include "model/adapter_sites.h"

namespace sluice {
namespace {

BaseFormat base_format(const TrainConfig& config) {
  if (config.load_in_4bit) return BaseFormat::kNf4;
  return config.load_in_8bit ? BaseFormat::kInt8 : BaseFormat::kPlain;
}

}  // namespace

ModelDescription with_adapter(ModelDescription model, const TrainConfig& config) {
  if (config.adapter == AdapterKind::kNone) return model;
  model.arch.adapter = make_adapter(model, {.rank = static_cast<std::int64_t>(config.lora_r),
                                            .alpha = config.lora_alpha,
                                            .dropout = config.lora_dropout,
                                            .rslora = config.use_rslora,
                                            .base = base_format(config),
                                            .targets = config.lora_target_modules});
  return model;
}

}  // namespace sluice
