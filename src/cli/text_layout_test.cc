// SPDX-License-Identifier: Apache-2.0
#include "cli/text_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::ElementsAre;

TEST(DisplayWidth, CountsColumnsNotBytesNorCodePoints) {
  EXPECT_EQ(display_width("größe"), 5U);
  EXPECT_EQ(display_width("訓練"), 4U);     // wide
  EXPECT_EQ(display_width("e\u0301"), 1U);  // a combining accent
  EXPECT_EQ(display_width("🚀"), 2U);
  EXPECT_EQ(display_width("\033[32mok\033[0m"), 2U);  // colour codes have width 0
}

TEST(Shortened, EndsWithAnEllipsisAndNeverWithHalfACharacter) {
  EXPECT_EQ(shortened("checkpoint", 10), "checkpoint");
  EXPECT_EQ(shortened("checkpoint", 6), "check…");
  EXPECT_EQ(shortened("訓練訓練", 5), "訓練…");
  EXPECT_EQ(shortened("訓練訓練", 4), "訓…");  // a wide character does not fit before the ellipsis
  EXPECT_EQ(shortened("\033[32mgreen\033[0m", 3), "\033[32mgr…\033[0m");
  EXPECT_EQ(shortened("x", 0), "");
}

TEST(Wrapped, BreaksBetweenWordsAndLeavesLongOnesWhole) {
  EXPECT_THAT(wrapped("one two three", 8, 2), ElementsAre("one two", "  three"));
  EXPECT_THAT(wrapped("see /a/very/long/path now", 10), ElementsAre("see /a/very/long/path", "now"));
  EXPECT_THAT(wrapped("one\n\ntwo", 20), ElementsAre("one", "", "two"));
  EXPECT_THAT(wrapped("", 20), ElementsAre(""));
}

TEST(Wrapped, GoesOnBelowTheTextOfALabel) {
  EXPECT_THAT(wrapped("plan  30 steps of 512", 14, 2), ElementsAre("plan  30 steps", "      of 512"));
  EXPECT_THAT(wrapped("  weights in memory", 13, 2), ElementsAre("  weights in", "    memory"));
}

TEST(Printable, ControlCharactersOfOthersDoNotReachTheTerminal) {
  EXPECT_EQ(printable("a\033[2Jb\tc\r\nd\xFF"), "a\uFFFD[2Jb c\uFFFD\nd\uFFFD");
}

StatusLine speed_line() {
  return {.label = "speed",
          .fields = {{"1,234 tok/s"},
                     {.text = "0.132 s/step", .rank = 1},
                     {.text = "bottleneck compute", .brief = "compute", .rank = 2}},
          .cells = [](std::size_t num_cells) { return std::string(num_cells, '#'); },
          .least_cells = 4,
          .most_cells = 6};
}

TEST(Fit, GivesUpCellsThenWordsThenFieldsTheHighestRankFirst) {
  const StatusLine line = speed_line();
  EXPECT_EQ(fit(line, 80), "speed  ######  1,234 tok/s  0.132 s/step  bottleneck compute");
  EXPECT_EQ(fit(line, 58), "speed  ####  1,234 tok/s  0.132 s/step  bottleneck compute");
  EXPECT_EQ(fit(line, 52), "speed  1,234 tok/s  0.132 s/step  bottleneck compute");
  EXPECT_EQ(fit(line, 51), "speed  ######  1,234 tok/s  0.132 s/step  compute");
  EXPECT_EQ(fit(line, 33), "speed  1,234 tok/s  0.132 s/step");
  EXPECT_EQ(fit(line, 20), "speed  1,234 tok/s");
  EXPECT_EQ(fit(line, 10), "speed  1,…");
}

TEST(Fit, NeverExceedsTheColumns) {
  for (std::size_t columns = 0; columns < 100; ++columns) EXPECT_LE(display_width(fit(speed_line(), columns)), columns);
}

}  // namespace
}  // namespace sluice
