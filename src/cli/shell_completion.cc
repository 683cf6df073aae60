// SPDX-License-Identifier: Apache-2.0
#include "cli/shell_completion.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::string_view kKeyValues = "overrides";  // name of the positional for `key=value`

bool takes_keys(const Command& command) {
  return std::any_of(command.options.begin(), command.options.end(),
                     [](const CommandOption& option) { return option.positional == kKeyValues; });
}

// "/data/check"
std::string verb_path(const Command& command) {
  std::string path;
  for (const std::string& word : command.path) path += "/" + word;
  return path;
}

// The names of all verbs as a `case` pattern of the shell: "/data | /data/check".
std::string path_patterns(const Command& root, std::string_view between) {
  std::string patterns;
  for (const Command* const command : all_commands(root)) {
    if (command->path.empty()) continue;
    patterns += (patterns.empty() ? "" : std::string(between)) + verb_path(*command);
  }
  return patterns;
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> names;
  for (const CommandOption& option : command.options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Text as a single-quoted shell word, on one line.
std::string shell_quoted(std::string_view text, std::string_view escaped_quote) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += escaped_quote;
    } else {
      quoted += c == '\n' ? ' ' : c;
    }
  }
  return quoted + "'";
}

std::string zsh_entry(std::string_view word, std::string_view about) {
  std::string entry;
  for (const char c : word) {
    if (c == ':') entry += '\\';
    entry += c;
  }
  return shell_quoted(entry + ":" + std::string(about), "'\\''");
}

}  // namespace

std::string bash_completion(const CompletionInput& input) {
  std::string cases;
  for (const Command* const command : all_commands(input.root)) {
    std::vector<std::string> verbs;
    for (const Command& verb : command->verbs) verbs.push_back(verb.name);
    std::string with_value;
    for (const CommandOption& option : command->options) {
      if (option.value.empty()) continue;
      for (const std::string& name : option.names) with_value += (with_value.empty() ? "" : " ") + name;
    }
    cases += fmt::format("    {}) verbs='{}' options='{}' valued='{}' has_keys={} ;;\n",
                         command->path.empty() ? "''" : verb_path(*command), joined(verbs),
                         joined(option_names(*command)), with_value, takes_keys(*command) ? "1" : "");
  }
  return fmt::format(
      R"(# Completion of sluice in bash: source <(sluice completion bash)
_sluice() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} verb= word idx
  local verbs= options= valued= has_keys=
  local keys='{}'
  for ((idx = 1; idx < COMP_CWORD; idx++)); do
    word=${{COMP_WORDS[idx]}}
    case "$verb/$word" in
      {}) verb=$verb/$word ;;
    esac
  done
  case "$verb" in
{}  esac
  COMPREPLY=()
  [[ $cur == '=' ]] && cur=
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ -n $verbs ]]; then
    COMPREPLY=($(compgen -W "$verbs" -- "$cur"))
  elif [[ -n $has_keys && $prev != '=' && " $valued " != *" $prev "* && $cur != */* ]]; then
    COMPREPLY=($(compgen -S = -W "$keys" -- "$cur"))
    if ((${{#COMPREPLY[@]}})); then compopt -o nospace 2>/dev/null; fi
    COMPREPLY+=($(compgen -f -- "$cur"))
  else
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}}
complete -F _sluice sluice
)",
      joined(input.config_keys), path_patterns(input.root, "|"), cases);
}

std::string zsh_completion(const CompletionInput& input) {
  std::string cases;
  for (const Command* const command : all_commands(input.root)) {
    std::string verbs;
    for (const Command& verb : command->verbs) verbs += "\n        " + zsh_entry(verb.name, verb.about);
    std::string options;
    for (const CommandOption& option : command->options) {
      for (const std::string& name : option.names) options += "\n        " + zsh_entry(name, option.about);
    }
    cases += fmt::format("    ({})\n      verbs=({})\n      options=({})\n      has_keys={} ;;\n",
                         command->path.empty() ? "''" : verb_path(*command), verbs, options,
                         takes_keys(*command) ? "1" : "");
  }
  return fmt::format(
      R"(#compdef sluice
# Completion of sluice in zsh: source <(sluice completion zsh) after compinit, or this text as _sluice in fpath
_sluice() {{
  local verb= word has_keys= cur=${{words[CURRENT]}}
  local -a verbs options keys
  keys=({})
  for word in ${{words[2,CURRENT-1]}}; do
    case "$verb/$word" in
      ({}) verb=$verb/$word ;;
    esac
  done
  case "$verb" in
{}  esac
  if [[ $cur == -* ]]; then
    _describe -o option options
    return
  fi
  if (( $#verbs )); then
    _describe verb verbs
    return
  fi
  if [[ -n $has_keys && $cur != *=* ]]; then
    compadd -S '=' -- $keys
  fi
  if [[ $cur == *=* ]]; then
    compset -P '*='
  fi
  _files
}}
if [[ $funcstack[1] == _sluice ]]; then
  _sluice "$@"
else
  compdef _sluice sluice
fi
)",
      joined(input.config_keys), path_patterns(input.root, "|"), cases);
}

std::string fish_completion(const CompletionInput& input) {
  const auto quoted = [](std::string_view text) {
    std::string escaped;
    for (const char c : text) {
      if (c == '\\') escaped += '\\';
      escaped += c;
    }
    return shell_quoted(escaped, "\\'");
  };
  std::string script = fmt::format(
      R"(# Completion of sluice in fish: sluice completion fish | source
function __sluice_at
  set -l verb ''
  for word in (commandline -opc)[2..-1]
    switch "$verb/$word"
      case {}
        set verb "$verb/$word"
    end
  end
  test "$verb" = "$argv[1]"
end
)",
      path_patterns(input.root, " "));
  for (const Command* const command : all_commands(input.root)) {
    const std::string start = fmt::format("complete -c sluice -n '__sluice_at \"{}\"'", verb_path(*command));
    for (const Command& verb : command->verbs) {
      script += fmt::format("{} -f -a {} -d {}\n", start, verb.name, quoted(verb.about));
    }
    for (const CommandOption& option : command->options) {
      if (option.names.empty()) continue;
      std::string words;
      for (const std::string& name : option.names) {
        words += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      script += fmt::format("{}{}{} -d {}\n", start, words, option.value.empty() ? "" : " -r -F", quoted(option.about));
    }
    if (!takes_keys(*command)) continue;
    for (const std::string& key : input.config_keys) script += fmt::format("{} -a {}=\n", start, key);
  }
  return script;
}

}  // namespace sluice
