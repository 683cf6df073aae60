// SPDX-License-Identifier: Apache-2.0
// What reading a configuration has to say besides the configuration, for people.
#pragma once

#include <string>
#include <vector>

namespace sluice {

// The lines to print: keys that are ignored share one, whatever their number; each with its reason is for --verbose.
std::vector<std::string> fold_notes(const std::vector<std::string>& warnings);

// These lines as the program says them; what was folded goes to the log of --verbose.
std::vector<std::string> config_notes(const std::vector<std::string>& warnings);
// The same on standard error.
void print_config_notes(const std::vector<std::string>& warnings);

}  // namespace sluice
