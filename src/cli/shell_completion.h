// SPDX-License-Identifier: Apache-2.0
// Scripts that complete verbs, options, files and keys of a configuration in a shell. They hold all that they complete:
// the program is not run while somebody types.
#pragma once

#include <string>
#include <vector>

#include "cli/command_tree.h"

namespace sluice {

struct CompletionInput {
  Command root;
  std::vector<std::string> config_keys;  // for verbs that take `key=value`
};

std::string bash_completion(const CompletionInput& input);
std::string zsh_completion(const CompletionInput& input);
std::string fish_completion(const CompletionInput& input);

}  // namespace sluice
