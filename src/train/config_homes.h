// SPDX-License-Identifier: Apache-2.0
// `~` and `~user` at the beginning of a configuration's paths. Whose home is where is for the caller to know.
#pragma once

#include <string>

#include "train/train_config.h"

namespace sluice {

// `what` names the path in failures. Throws InvalidInput where it begins with a home that there is not.
std::string with_home(const std::string& path, const std::string& what, const HomeOf& home_of);

// Every path that the configuration has.
TrainConfig with_homes(TrainConfig config, const HomeOf& home_of);

}  // namespace sluice
