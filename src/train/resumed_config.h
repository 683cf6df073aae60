// SPDX-License-Identifier: Apache-2.0
// What may change between the configuration that a run began with and the one it goes on with: how fast it learns, how
// long, what it saves, how much memory it takes. What the state was made from may not.
#pragma once

#include <string>

#include "train/train_config.h"

namespace sluice {

// Throws InvalidInput naming the first key that may not change. `run_dir` is for the sentence.
void require_resumable(const TrainConfig& begun, const TrainConfig& now, const std::string& run_dir);

}  // namespace sluice
