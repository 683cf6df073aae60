// SPDX-License-Identifier: Apache-2.0
// The model that a configuration trains: its base, with the adapter that is asked for.
#pragma once

#include "io/file.h"
#include "model/description.h"
#include "train/train_config.h"

namespace sluice {

// Throws InvalidInput for what the model has no place for.
ModelDescription describe_trained_model(FileSystem& files, const std::string& folder, const TrainConfig& config);

}  // namespace sluice
