// SPDX-License-Identifier: Apache-2.0
// Checks the words of a command line before CLI11 parses them, so that the error names a mistyped verb or option and
// the closest known one. CLI11 would take it for a positional and blame another word.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace sluice {

// "sluice data check"
std::string full_name(const CLI::App& app);
std::vector<const CLI::App*> verbs_of(const CLI::App& app);

// Throws InvalidInput if the app has no such verb.
const CLI::App& require_verb(const CLI::App& app, const std::string& word);

struct CommandLine {
  std::vector<std::string> words;  // without global flags
  bool is_verbose = false;         // --verbose, which may stand anywhere
};

// Throws InvalidInput for a verb or an option that does not exist.
CommandLine read_command_line(const CLI::App& app, const std::vector<std::string>& words);

// A parse error of CLI11 as one sentence that names the verb.
std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace sluice
