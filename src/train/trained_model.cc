// SPDX-License-Identifier: Apache-2.0
#include "train/trained_model.h"

#include <fmt/format.h>

#include "base/error.h"
#include "format/model_folder.h"
#include "model/adapter_sites.h"
#include "train/run_notes.h"

namespace sluice {
namespace {

AdapterSettings adapter_settings(const TrainConfig& config) {
  BaseFormat base = BaseFormat::kPlain;
  if (config.load_in_8bit) base = BaseFormat::kInt8;
  if (config.load_in_4bit) base = BaseFormat::kNf4;
  return {.rank = static_cast<std::int64_t>(config.lora_r),
          .alpha = config.lora_alpha,
          .dropout = config.lora_dropout,
          .rslora = config.use_rslora,
          .base = base,
          .targets = config.lora_target_modules};
}

// Learned position embeddings have a maximum length; rotary embeddings do not.
void require_positions(const Architecture& arch, const TrainConfig& config, const std::string& folder) {
  if (arch.learned_positions == 0) return;
  const std::int64_t most = context_tokens(arch);
  if (config.sequence_len <= static_cast<std::uint64_t>(most)) return;
  throw InvalidInput(
      fmt::format("sequence_len is {}, but '{}' has learned positions for {} tokens: set sequence_len: {}",
                  config.sequence_len, folder, most, most));
}

}  // namespace

ModelDescription describe_trained_model(FileSystem& files, const std::string& folder, const TrainConfig& config) {
  ModelDescription model = describe_model(read_model_config(look_into_model_folder(files, folder)));
  const bool is_nf4 = model.stored == BaseFormat::kNf4;
  if (is_nf4 && (config.adapter == AdapterKind::kNone || config.load_in_8bit)) {
    throw InvalidInput(
        fmt::format("base_model '{}' is in NF4, which is read and not trained: set adapter: qlora, or name its bf16, "
                    "fp16 or fp32 original",
                    folder));
  }
  require_positions(model.arch, config, folder);
  if (config.adapter == AdapterKind::kNone) return model;
  AdapterSettings settings = adapter_settings(config);
  if (is_nf4) settings.base = BaseFormat::kNf4;
  model.arch.adapter = make_adapter(model, settings);
  return model;
}

}  // namespace sluice
