// SPDX-License-Identifier: Apache-2.0
// Expands `~` and `~user` at the start of a configuration's paths. The caller looks up home directories.
#pragma once

#include <string>

#include "train/train_config.h"

namespace sluice {

// `what` names the path in errors. Throws InvalidInput if the path begins with an unknown home.
std::string with_home(const std::string& path, const std::string& what, const HomeOf& home_of);

// Expands every path of the configuration.
TrainConfig with_homes(TrainConfig config, const HomeOf& home_of);

}  // namespace sluice
