// SPDX-License-Identifier: Apache-2.0
#include "cli/config_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ConfigNotes, IgnoredKeysShareALine) {
  const std::vector<std::string> notes = fold_notes(
      {"run.yaml:3:tf32: ignored: sums are kept in fp32", "run.yaml:4:chat_template: the model's own is used",
       "command line:wandb_mode: ignored: metrics go elsewhere", "run.yaml:9:tf32: ignored: again"});
  EXPECT_THAT(notes, ElementsAre(HasSubstr("ignored keys: tf32, wandb_mode (docs/config.md"),
                                 "run.yaml:4:chat_template: the model's own is used"));
}

TEST(ConfigNotes, OneAloneKeepsItsReason) {
  EXPECT_THAT(fold_notes({"run.yaml:3:tf32: ignored: sums are kept in fp32"}),
              ElementsAre("run.yaml:3:tf32: ignored: sums are kept in fp32"));
  EXPECT_TRUE(fold_notes({}).empty());
}

}  // namespace
}  // namespace sluice
