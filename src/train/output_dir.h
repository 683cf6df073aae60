// SPDX-License-Identifier: Apache-2.0
// Where a new run may put its files: not where somebody else's are.
#pragma once

#include "io/file.h"
#include "train/train_config.h"

namespace sluice {

// Throws InvalidInput where output_dir, whatever its spelling, is the folder of a file that the configuration reads, or
// one of its cache folders, or holds the base model or the data somewhere below it.
void require_own_output_dir(const TrainConfig& config);

// Throws InvalidInput where output_dir holds files and no run.json says that a run made them.
void require_empty_output_dir(FileSystem& files, const TrainConfig& config);

}  // namespace sluice
