// SPDX-License-Identifier: Apache-2.0
// Formats the warnings of reading a configuration for the user.
#pragma once

#include <string>
#include <vector>

namespace sluice {

// The lines to print: all ignored keys share one line; --verbose shows each with its reason.
std::vector<std::string> fold_notes(const std::vector<std::string>& warnings);

// The folded lines with the prefix "sluice: "; the reason of each folded key goes to the debug log (--verbose).
std::vector<std::string> config_notes(const std::vector<std::string>& warnings);
// Prints config_notes() on standard error.
void print_config_notes(const std::vector<std::string>& warnings);

}  // namespace sluice
