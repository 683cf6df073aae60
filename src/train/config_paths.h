// SPDX-License-Identifier: Apache-2.0
// `~` and `~user` at the beginning of a configuration's paths. Whose home is where is for the caller to know.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "train/train_config.h"

namespace sluice {

// The home of a user, or of whoever runs this for "". Nothing where there is none.
using HomeOf = std::function<std::optional<std::string>(const std::string& user)>;

// `what` names the path in failures. Throws InvalidInput where it begins with a home that there is not.
std::string with_home(const std::string& path, const std::string& what, const HomeOf& home_of);

// Every path that the configuration has.
TrainConfig with_homes(TrainConfig config, const HomeOf& home_of);

}  // namespace sluice
