// SPDX-License-Identifier: Apache-2.0
#include "cli/command_tree.h"

#include <algorithm>

#include "base/error.h"
#include "cli/command_words.h"

namespace sluice {
namespace {

// CLI11 appends validators to the type name: "INT:INT in [1 - 1024]".
std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

CommandOption describe_option(const CLI::Option& option) {
  CommandOption described{.about = option.get_description(),
                          .default_text = option.get_default_str(),
                          .is_required = option.get_required(),
                          .may_repeat = option.get_items_expected_max() > 1};
  for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  if (option.get_positional()) described.positional = option.get_name(true);
  if (option.get_items_expected_max() > 0) {
    described.value = value_name(option);
    if (described.value.empty()) described.value = "TEXT";
  }
  return described;
}

Command describe_command(const CLI::App& app, std::vector<std::string> path) {
  Command command{.name = app.get_name(), .path = std::move(path), .about = app.get_description()};
  for (const CLI::Option* const option : app.get_options()) command.options.push_back(describe_option(*option));
  for (const CLI::App* const verb : verbs_of(app)) {
    std::vector<std::string> below = command.path;
    below.push_back(verb->get_name());
    command.verbs.push_back(describe_command(*verb, std::move(below)));
  }
  return command;
}

}  // namespace

std::string Command::full_name(char between) const {
  std::string words = "sluice";
  for (const std::string& word : path) words += between + word;
  return words;
}

Command command_tree(const CLI::App& app) { return describe_command(app, {}); }

std::vector<const Command*> all_commands(const Command& command) {
  std::vector<const Command*> all{&command};
  for (const Command& verb : command.verbs) {
    const std::vector<const Command*> below = all_commands(verb);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

const CLI::App& find_verb(const CLI::App& app, const std::vector<std::string>& path) {
  const CLI::App* at = &app;
  for (const std::string& word : path) at = &require_verb(*at, word);
  return *at;
}

}  // namespace sluice
