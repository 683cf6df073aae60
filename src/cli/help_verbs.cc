// SPDX-License-Identifier: Apache-2.0
#include "cli/help_verbs.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "cli/command_tree.h"
#include "cli/command_words.h"
#include "cli/man_page.h"
#include "cli/shell_completion.h"
#include "format/model_folder.h"
#include "format/whole_file.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"
#include "train/config_keys.h"

namespace sluice {
namespace {

struct HelpArguments {
  std::vector<std::string> path;
  std::string shell;
  std::string output;
};

const Command& find_command(const Command& root, const CLI::App& app, const std::vector<std::string>& path) {
  find_verb(app, path);
  const Command* at = &root;
  for (const std::string& word : path) {
    for (const Command& verb : at->verbs) {
      if (verb.name == word) {
        at = &verb;
        break;
      }
    }
  }
  return *at;
}

// CLI11's help() would print the help of `sluice help`, the verb that was parsed.
void print_help(const CLI::App& verb) {
  fmt::print("{}", verb.get_formatter()->make_help(&verb, full_name(verb), CLI::AppFormatMode::Normal));
}

void print_completion(const CLI::App& app, const std::string& shell) {
  std::vector<std::string> keys;
  for (const ConfigKey& key : config_keys()) keys.emplace_back(key.name);
  const CompletionInput input{.root = command_tree(app), .config_keys = keys};
  if (shell == "bash") {
    fmt::print("{}", bash_completion(input));
  } else if (shell == "zsh") {
    fmt::print("{}", zsh_completion(input));
  } else if (shell == "fish") {
    fmt::print("{}", fish_completion(input));
  } else {
    throw InvalidInput(fmt::format("there is no completion for '{}'; expected bash, zsh or fish", shell));
  }
}

void write_man_pages(const CLI::App& app, const std::string& folder) {
  PosixFileSystem files;
  ThreadsEngine engine(1);
  make_model_folder(folder);
  const Command root = command_tree(app);
  for (const Command* const command : all_commands(root)) {
    write_whole_file(files, engine, fmt::format("{}/{}.1", folder, command->full_name('-')),
                     man_page(*command, app.version()));
  }
}

}  // namespace

void add_help_verbs(CLI::App& app) {
  const auto arguments = std::make_shared<HelpArguments>();
  CLI::App* const help = app.add_subcommand("help", "Say what a verb does and which options it has");
  help->add_option("verb", arguments->path, "The verb, with the one below it where there is one: data check");
  help->callback([&app, arguments] { print_help(find_verb(app, arguments->path)); });

  CLI::App* const completion =
      app.add_subcommand("completion", "Print the completion of verbs and options for a shell");
  completion->add_option("shell", arguments->shell, "bash, zsh or fish")->required();
  completion->footer(
      "bash: source <(sluice completion bash)\n"
      "zsh:  source <(sluice completion zsh), after compinit\n"
      "fish: sluice completion fish | source");
  completion->callback([&app, arguments] { print_completion(app, arguments->shell); });

  CLI::App* const man = app.add_subcommand("man", "Print the manual page of a verb, for man -l");
  man->add_option("verb", arguments->path, "The verb; none: the page of sluice itself");
  man->add_option("--output", arguments->output, "Write the pages of all verbs into this folder instead")
      ->type_name("DIR");
  man->callback([&app, arguments] {
    if (!arguments->output.empty()) return write_man_pages(app, arguments->output);
    const Command root = command_tree(app);
    fmt::print("{}", man_page(find_command(root, app, arguments->path), app.version()));
  });
}

}  // namespace sluice
