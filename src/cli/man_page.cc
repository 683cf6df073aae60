// SPDX-License-Identifier: Apache-2.0
#include "cli/man_page.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

namespace sluice {
namespace {

// Escapes text so that roff prints it literally.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\n.br\n";
      continue;
    }
    if ((out.empty() || out.back() == '\n') && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
  return text;
}

std::string synopsis(const Command& command) {
  std::string line = bold(command.full_name());
  if (!command.verbs.empty()) return line + " " + italic("VERB") + " ...\n";
  line += " [" + italic("OPTIONS") + "]";
  for (const CommandOption& option : command.options) {
    if (option.positional.empty()) continue;
    const std::string name = italic(option.positional) + (option.may_repeat ? " ..." : "");
    line += option.is_required ? " " + name : " [" + name + "]";
  }
  return line + "\n";
}

// A tagged paragraph: ".TP", the option's names, its description.
std::string option_entry(const CommandOption& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + bold(name);
  if (!option.value.empty() && !names.empty()) names += " " + italic(option.value);
  if (!option.positional.empty()) {
    // The positional form of an option: DIR in place of `--model DIR`.
    names = names.empty() ? italic(option.positional) : italic(option.positional) + ", " + names;
  }
  std::string about = option.about;
  if (!option.default_text.empty()) about += fmt::format(" (default: {})", option.default_text);
  return fmt::format(".TP\n{}\n{}\n", names, roff(about));
}

}  // namespace

std::string man_page(const Command& command, const std::string& version) {
  const std::string name = command.full_name('-');
  std::string page = fmt::format(".TH {} 1 \"\" \"{}\" \"Sluice\"\n", upper(roff(name)), roff(version));
  page += fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(command.about));
  page += ".SH SYNOPSIS\n" + synopsis(command);
  std::string positionals;
  std::string options;
  for (const CommandOption& option : command.options) {
    (option.positional.empty() ? options : positionals) += option_entry(option);
  }
  if (!positionals.empty()) page += ".SH ARGUMENTS\n" + positionals;
  if (!command.verbs.empty()) {
    page += ".SH VERBS\n";
    for (const Command& verb : command.verbs) {
      page += fmt::format(".TP\n{}\n{}\n", bold(verb.name), roff(verb.about));
    }
  }
  page += ".SH OPTIONS\n" + options;
  page +=
      ".SH EXIT STATUS\n0 for success, 1 for failure, 2 for a mistake in what was asked, 130 when interrupted.\n"
      ".SH SEE ALSO\n";
  std::string others;
  const auto refer = [&](const std::string& page_name) {
    others += (others.empty() ? "" : ",\n") + fmt::format("\\fB{}\\fR(1)", roff(page_name));
  };
  if (!command.path.empty()) refer("sluice");
  for (const Command& verb : command.verbs) refer(verb.full_name('-'));
  return page + others + "\n";
}

}  // namespace sluice
