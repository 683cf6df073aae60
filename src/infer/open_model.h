// SPDX-License-Identifier: Apache-2.0
// An opened model folder, optionally with a LoRA adapter: description, checkpoint, slices. Owns the open files;
// references that it returns live as long as this.
#pragma once

#include <optional>
#include <string>

#include "format/adapter_folder.h"
#include "format/checkpoint.h"
#include "format/model_folder.h"
#include "infer/placed_model.h"
#include "model/checkpoint_slices.h"
#include "model/description.h"

namespace sluice {

struct ModelChoice {
  std::string model;    // a folder; empty: the base named by the adapter's configuration
  std::string adapter;  // a folder; empty: none
};

class OpenModel {
 public:
  // Throws InvalidInput if a folder is not a model's or an adapter's, FormatError if its files are damaged.
  OpenModel(FileSystem& files, IoEngine& engine, const ModelChoice& choice);
  OpenModel(const OpenModel&) = delete;
  OpenModel& operator=(const OpenModel&) = delete;

  const ModelFolder& folder() const { return folder_; }
  const ConfigReader& config() const { return config_; }
  const ModelDescription& description() const { return model_; }
  ModelParts parts() const {
    return {.slices = &slices_, .model = &model_, .adapter = adapter_ ? &*adapter_ : nullptr};
  }
  // The folder of tokenizer and chat template: the adapter's if it has its own, as Sluice and PEFT save them.
  const std::string& text_folder() const { return text_folder_; }

 private:
  std::optional<AdapterFolder> adapter_;
  ModelFolder folder_;
  ConfigReader config_;
  Checkpoint checkpoint_;
  ModelDescription model_;
  CheckpointSlices slices_;
  std::string text_folder_;
};

}  // namespace sluice
