// SPDX-License-Identifier: Apache-2.0
// Makes the paths of a configuration absolute, so that a run can be resumed from any folder.
#pragma once

#include <string>

#include "train/train_config.h"

namespace sluice {

// Resolves relative paths against `folder`, which is absolute.
TrainConfig with_absolute_paths(TrainConfig config, const std::string& folder);
// Resolves against the current folder, without "." and ".." and without a trailing slash.
std::string absolute_path(const std::string& path);

}  // namespace sluice
