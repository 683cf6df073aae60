// SPDX-License-Identifier: Apache-2.0
// Where users have their homes.
#pragma once

#include <optional>
#include <string>

namespace sluice {

// $HOME for "", else what the system knows of the user. Nothing where there is none.
std::optional<std::string> home_folder(const std::string& user);

}  // namespace sluice
