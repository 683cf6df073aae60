// SPDX-License-Identifier: Apache-2.0
// An adapter as PEFT keeps it: adapter_config.json and adapter_model.safetensors. The model's own weights are not
// written; the configuration names the folder that has them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "format/safetensors_header.h"
#include "io/file.h"
#include "io/io_engine.h"
#include "model/description.h"

namespace sluice {

inline constexpr const char* kAdapterConfigName = "adapter_config.json";
inline constexpr const char* kAdapterWeightsName = "adapter_model.safetensors";

std::string adapter_config_text(const ModelDescription& model, const std::string& base_model);

std::vector<PlannedTensor> plan_adapter_tensors(const ModelDescription& model);
// `adapter_of` gives a slice's adapter, f32; good until the next call.
void write_adapter_weights(FileSystem& files, IoEngine& engine, const ModelDescription& model,
                           const std::string& folder,
                           const std::function<std::span<const std::byte>(std::size_t slice_idx)>& adapter_of);

}  // namespace sluice
