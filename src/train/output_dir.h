// SPDX-License-Identifier: Apache-2.0
// Checks that a new run's output_dir contains no files of others.
#pragma once

#include "io/file.h"
#include "train/train_config.h"

namespace sluice {

// Throws InvalidInput if output_dir, in any spelling, is the folder of an input file or a cache folder, or contains the
// base model or the data at any depth.
void require_own_output_dir(const TrainConfig& config);

// Throws InvalidInput if output_dir holds files and no run.json, which marks them as a run's.
void require_empty_output_dir(FileSystem& files, const TrainConfig& config);

}  // namespace sluice
