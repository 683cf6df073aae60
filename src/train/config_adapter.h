// SPDX-License-Identifier: Apache-2.0
// From a configuration's keys to the adapter that is trained.
#pragma once

#include "model/description.h"
#include "train/train_config.h"

namespace sluice {

// The model with its adapter, where the configuration asks for one. Throws InvalidInput where its targets are not
// there.
ModelDescription with_adapter(ModelDescription model, const TrainConfig& config);

}  // namespace sluice
