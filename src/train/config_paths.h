// SPDX-License-Identifier: Apache-2.0
// Paths of a configuration made absolute, so that a run finds them again from whatever folder it is resumed.
#pragma once

#include <string>

#include "train/train_config.h"

namespace sluice {

// Relative paths are taken from `folder`, which is absolute.
TrainConfig with_absolute_paths(TrainConfig config, const std::string& folder);
// From the current folder, without "." and ".." and without a slash at the end.
std::string absolute_path(const std::string& path);

}  // namespace sluice
