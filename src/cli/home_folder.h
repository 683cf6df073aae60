// SPDX-License-Identifier: Apache-2.0
// Home directories of users.
#pragma once

#include <optional>
#include <string>

namespace sluice {

// $HOME for "", else the home in the passwd database; nullopt: no such user or home.
std::optional<std::string> home_folder(const std::string& user);

}  // namespace sluice
