// SPDX-License-Identifier: Apache-2.0
// Renders a command as a manual page in roff with the man macros.
#pragma once

#include <string>

#include "cli/command_tree.h"

namespace sluice {

// `version`: "sluice 0.1.0", for the foot of the page.
std::string man_page(const Command& command, const std::string& version);

}  // namespace sluice
