// SPDX-License-Identifier: Apache-2.0
// The words of a command line, looked at before they are parsed: a mistyped verb or option is named with the nearest
// one that there is. Left to the parser, it would be taken for a positional, and another word would be blamed.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace sluice {

// "sluice data check"
std::string full_name(const CLI::App& app);
std::vector<const CLI::App*> verbs_of(const CLI::App& app);

// Throws InvalidInput where the app has no such verb.
const CLI::App& require_verb(const CLI::App& app, const std::string& word);

struct CommandLine {
  std::vector<std::string> words;  // without those below
  bool is_verbose = false;         // --verbose, which may stand anywhere
};

// Throws InvalidInput for a verb or an option that does not exist.
CommandLine read_command_line(const CLI::App& app, const std::vector<std::string>& words);

// What the parser refused, as one sentence that names the verb.
std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace sluice
