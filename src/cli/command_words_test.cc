// SPDX-License-Identifier: Apache-2.0
// Command lines of an app that looks like sluice's.
#include "cli/command_words.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/command_tree.h"
#include "cli/man_page.h"
#include "cli/shell_completion.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct SmallApp {
  SmallApp() {
    CLI::App* const train = app.add_subcommand("train", "Fine-tune a model; it's said in a file");
    train->add_option("config", text, "The configuration")->required();
    train->add_option("overrides", list, "key=value");
    train->add_option("--micro-batch-size", number, "Sequences")->check(CLI::Range(1, 8))->capture_default_str();
    train->add_option("--ids", list, "Ids");
    train->add_flag("--json", flag, "Print JSON");
    CLI::App* const data = app.add_subcommand("data", "Look at data");
    data->require_subcommand(1);
    data->add_subcommand("check", "Read rows")->add_option("--model,model", text, ".leading dot and \\slash");
  }

  std::string refusal(const std::vector<std::string>& words) {
    try {
      read_command_line(app, words);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  CLI::App app{"A program", "sluice"};
  std::string text;
  std::vector<std::string> list;
  int number = 2;
  bool flag = false;
};

TEST(CommandWords, AnUnknownWordIsNamedWithTheNearest) {
  SmallApp small;
  EXPECT_THAT(small.refusal({"trian"}), AllOf(HasSubstr("trian"), HasSubstr("did you mean train?")));
  EXPECT_THAT(small.refusal({"data", "chek"}), AllOf(HasSubstr("data: there is no verb"), HasSubstr("check?")));
  EXPECT_THAT(small.refusal({"train", "c.yaml", "--micro-batch", "1"}),
              AllOf(HasSubstr("--micro-batch;"), HasSubstr("did you mean --micro-batch-size?"),
                    HasSubstr("'sluice help train'")));
  EXPECT_THAT(small.refusal({"train", "--jsn"}), HasSubstr("--json?"));
  EXPECT_THAT(small.refusal({"train", "-q"}), HasSubstr("-q"));
  EXPECT_THAT(small.refusal({"train", "--somethingelse=3"}),
              AllOf(HasSubstr("--somethingelse;"), Not(HasSubstr("mean"))));
}

TEST(CommandWords, ValuesAreNotOptionsAndPositionalsAreNotVerbs) {
  SmallApp small;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", "trian", "--micro-batch-size", "-1", "--json"},
        {"train", "--ids", "--weird", "data"},
        {"train", "c", "--", "--not-an-option"},
        {"train", "--micro-batch-size=3", "-"},
        {"data", "check", "chek"}}) {
    EXPECT_EQ(read_command_line(small.app, words).words, words);
  }
  const CommandLine line = read_command_line(small.app, {"train", "--verbose", "c"});
  EXPECT_TRUE(line.is_verbose);
  EXPECT_THAT(line.words, ElementsAre("train", "c"));
}

TEST(CommandTree, HoldsWhatTheParserHas) {
  SmallApp small;
  const Command root = command_tree(small.app);
  ASSERT_EQ(all_commands(root).size(), 4U);
  const Command& train = root.verbs.front();
  EXPECT_EQ(train.full_name('-'), "sluice-train");
  const auto option = std::find_if(train.options.begin(), train.options.end(), [](const CommandOption& one) {
    return !one.names.empty() && one.names.front() == "--micro-batch-size";
  });
  ASSERT_NE(option, train.options.end());
  EXPECT_EQ(option->value, "INT");
  EXPECT_EQ(option->default_text, "2");
  EXPECT_EQ(&find_verb(small.app, {"data", "check"}), small.app.get_subcommand("data")->get_subcommand("check"));
  EXPECT_THROW(find_verb(small.app, {"data", "check", "more"}), InvalidInput);
}

TEST(ManPage, EscapesWhatRoffWouldRead) {
  SmallApp small;
  const Command root = command_tree(small.app);
  const std::string page = man_page(root.verbs.back().verbs.front(), "sluice 1");
  EXPECT_THAT(page, AllOf(HasSubstr(".SH SYNOPSIS\n\\fBsluice data check\\fR"),
                          HasSubstr("\\&.leading dot and \\eslash"), HasSubstr("\\fB\\-\\-model\\fR")));
}

TEST(ShellCompletion, HasEveryVerbOptionAndKey) {
  SmallApp small;
  const CompletionInput input{.root = command_tree(small.app), .config_keys = {"base_model", "sequence_len"}};
  for (const std::string& script : {bash_completion(input), zsh_completion(input), fish_completion(input)}) {
    for (const char* const word : {"train", "check", "micro-batch-size", "json", "base_model", "sequence_len"}) {
      EXPECT_THAT(script, HasSubstr(word));
    }
  }
}

}  // namespace
}  // namespace sluice
