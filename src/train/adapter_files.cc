// SPDX-License-Identifier: Apache-2.0
#include "train/adapter_files.h"

#include <cmath>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "format/checkpoint_writer.h"
#include "model/adapter_sites.h"

namespace sluice {

std::string adapter_config_text(const ModelDescription& model, const std::string& base_model) {
  const Adapter& adapter = model.arch.adapter;
  nlohmann::ordered_json config{{"peft_type", "LORA"},
                                {"task_type", "CAUSAL_LM"},
                                {"base_model_name_or_path", std::filesystem::absolute(base_model).lexically_normal()},
                                {"r", adapter.rank},
                                {"lora_alpha", adapter.alpha},
                                {"lora_dropout", adapter.dropout},
                                {"use_rslora", adapter.rslora},
                                {"target_modules", module_names(adapter)},
                                {"bias", "none"},
                                {"fan_in_fan_out", false},
                                {"inference_mode", true},
                                {"init_lora_weights", true},
                                {"use_dora", false},
                                {"modules_to_save", nullptr},
                                {"layers_to_transform", nullptr},
                                {"layers_pattern", nullptr},
                                {"rank_pattern", nlohmann::json::object()},
                                {"alpha_pattern", nlohmann::json::object()},
                                {"revision", nullptr}};
  // PEFT's own files have a whole number here.
  if (adapter.alpha == std::floor(adapter.alpha)) config["lora_alpha"] = static_cast<std::int64_t>(adapter.alpha);
  return config.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::vector<PlannedTensor> plan_adapter_tensors(const ModelDescription& model) {
  std::vector<PlannedTensor> tensors;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(model.arch); ++slice_idx) {
    for (TensorPlacement& placement : place_adapter_tensors(model, slice_idx)) {
      tensors.push_back({.name = std::move(placement.name), .dtype = DType::kF32, .shape = placement.shape});
    }
  }
  return tensors;
}

void write_adapter_weights(FileSystem& files, IoEngine& engine, const ModelDescription& model,
                           const std::string& folder,
                           const std::function<std::span<const std::byte>(std::size_t slice_idx)>& adapter_of) {
  CheckpointWriter writer(files, engine, folder,
                          {.tensors = plan_adapter_tensors(model), .only_file = kAdapterWeightsName});
  for (std::size_t slice_idx = 0; slice_idx < num_slices(model.arch); ++slice_idx) {
    const auto placements = place_adapter_tensors(model, slice_idx);
    if (placements.empty()) continue;
    const std::span<const std::byte> adapter = adapter_of(slice_idx);
    for (const TensorPlacement& placement : placements) {
      for (const TensorPiece& piece : placement.pieces) {
        writer.write(adapter.subspan(piece.slice_offset * sizeof(float), piece.count * sizeof(float)));
      }
    }
  }
  writer.finish();
}

}  // namespace sluice
