// SPDX-License-Identifier: Apache-2.0
// Completion scripts for shells: verbs, options, files and configuration keys. The scripts are self-contained and never
// run the program.
#pragma once

#include <string>
#include <vector>

#include "cli/command_tree.h"

namespace sluice {

struct CompletionInput {
  Command root;
  std::vector<std::string> config_keys;  // completed for verbs that take `key=value`
};

std::string bash_completion(const CompletionInput& input);
std::string zsh_completion(const CompletionInput& input);
std::string fish_completion(const CompletionInput& input);

}  // namespace sluice
