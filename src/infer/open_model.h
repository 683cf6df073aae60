// SPDX-License-Identifier: Apache-2.0
// A model's folder opened for use, with a LoRA adapter of it where one is given: description, checkpoint, slices. Owns
// the open files; what it gives out lives as long as this.
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
  std::string model;    // a folder; empty: the one that the adapter's configuration names
  std::string adapter;  // a folder; empty: none
};

class OpenModel {
 public:
  // Throws InvalidInput where a folder is not what it should be, FormatError where its files are damaged.
  OpenModel(FileSystem& files, IoEngine& engine, const ModelChoice& choice);
  OpenModel(const OpenModel&) = delete;
  OpenModel& operator=(const OpenModel&) = delete;

  const ModelFolder& folder() const { return folder_; }
  const ConfigReader& config() const { return config_; }
  const ModelDescription& description() const { return model_; }
  ModelParts parts() const {
    return {.slices = &slices_, .model = &model_, .adapter = adapter_ ? &*adapter_ : nullptr};
  }
  // Where tokenizer and chat template are: the adapter's folder where it has its own, as Sluice and PEFT save them.
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
