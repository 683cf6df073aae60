// SPDX-License-Identifier: Apache-2.0
// The verbs and options that the command line has, as values: what completion and man pages are made from, so that they
// cannot differ from what is parsed. For one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace sluice {

struct CommandOption {
  std::vector<std::string> names;  // "--help", "-h"; empty: a positional alone
  std::string positional;          // its name; empty: none
  std::string value;               // what it takes: "DIR"; empty: a flag
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

// The app of a verb: {"data", "check"}. Throws InvalidInput that names the unknown word and the nearest known.
const CLI::App& find_verb(const CLI::App& app, const std::vector<std::string>& path);

}  // namespace sluice
