// SPDX-License-Identifier: Apache-2.0
// The command line's verbs and options as values, taken from the parser itself, so that completion scripts and man
// pages always match it. Not thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace sluice {

struct CommandOption {
  std::vector<std::string> names;  // "--help", "-h"; empty: positional only
  std::string positional;          // its name; empty: none
  std::string value;               // placeholder of its argument: "DIR"; empty: a flag
  std::string about;
  std::string default_text;
  bool is_required = false;
  bool may_repeat = false;
};

struct Command {
  std::string name;
  std::vector<std::string> path;  // below the program: {"data", "check"}
  std::string about;
  std::vector<CommandOption> options;
  std::vector<Command> verbs;

  // "sluice data check", or with another character between the words.
  std::string full_name(char between = ' ') const;
};

Command command_tree(const CLI::App& app);

// The command itself and all below it, in order.
std::vector<const Command*> all_commands(const Command& command);

// The app of a verb such as {"data", "check"}. Throws InvalidInput naming the unknown word and the closest known one.
const CLI::App& find_verb(const CLI::App& app, const std::vector<std::string>& path);

}  // namespace sluice
