// SPDX-License-Identifier: Apache-2.0
#include "cli/command_words.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "base/closest_word.h"
#include "base/error.h"
#include "format/json_text.h"

namespace sluice {
namespace {

constexpr const char* kVerbose = "--verbose";

// "data check"; empty for the program itself.
std::string verb_words(const CLI::App& app) {
  const std::string name = full_name(app);
  return name.find(' ') == std::string::npos ? std::string() : name.substr(name.find(' ') + 1);
}

std::string help_command(const CLI::App& app) {
  const std::string words = verb_words(app);
  return words.empty() ? "sluice help" : "sluice help " + words;
}

std::string suggestion(const std::optional<std::string>& closest) {
  return closest ? fmt::format("did you mean {}? ", *closest) : std::string();
}

[[noreturn]] void refuse_option(const CLI::App& app, const std::string& name) {
  std::vector<std::string> known{kVerbose};
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& word : option->get_lnames()) known.push_back("--" + word);
  }
  const std::string words = verb_words(app);
  throw InvalidInput(fmt::format("{}there is no option {}; {}'{}' lists all", words.empty() ? words : words + ": ",
                                 on_one_line(name, 100), suggestion(closest_word(name, known)), help_command(app)));
}

// "--name" of "--name=value", "-n" of "-nvalue".
std::string option_name(const std::string& word) {
  return word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);
}

}  // namespace

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : full_name(*app.get_parent()) + " " + app.get_name();
}

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_name().empty(); });
}

const CLI::App& require_verb(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::App* const verb : verbs_of(app)) {
    if (verb->get_name() == word) return *verb;
    known.push_back(verb->get_name());
  }
  if (known.empty()) {
    throw InvalidInput(fmt::format("{} has no verbs below it, found {}; '{}' says what it takes", verb_words(app),
                                   in_quotes(word), help_command(app)));
  }
  const std::string words = verb_words(app);
  throw InvalidInput(fmt::format("{}there is no verb {}; {}'{}' lists all", words.empty() ? words : words + ": ",
                                 in_quotes(word), suggestion(closest_word(word, known)), help_command(app)));
}

CommandLine read_command_line(const CLI::App& app, const std::vector<std::string>& words) {
  CommandLine line;
  const CLI::App* at = &app;
  int num_values = 0;  // pending arguments of the preceding option
  for (std::size_t idx = 0; idx < words.size(); ++idx) {
    const std::string& word = words[idx];
    if (num_values > 0) {
      --num_values;
      line.words.push_back(word);
      continue;
    }
    if (word == "--") {  // only positionals follow
      line.words.insert(line.words.end(), words.begin() + static_cast<std::ptrdiff_t>(idx), words.end());
      break;
    }
    if (word == kVerbose) {
      line.is_verbose = true;
      continue;
    }
    line.words.push_back(word);
    if (word.size() < 2 || word.front() != '-') {
      if (!verbs_of(*at).empty()) at = &require_verb(*at, word);
      continue;
    }
    const std::string name = option_name(word);
    const CLI::Option* const option = at->get_option_no_throw(name);
    if (option == nullptr) refuse_option(*at, name);
    if (name == word) num_values = option->get_items_expected_min();
  }
  return line;
}

std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  std::string text = error.what();
  if (const std::size_t found = text.find(" excludes "); found != std::string::npos) {
    text = fmt::format("{} and {} cannot be given together", text.substr(0, found), text.substr(found + 10));
  }
  if (text == "A subcommand is required") text = "it needs one of its verbs";
  if (!text.empty()) text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
  const std::string words = verb_words(*at);
  return fmt::format("{}{}; '{}' says what it takes", words.empty() ? words : words + ": ", text, help_command(*at));
}

}  // namespace sluice
