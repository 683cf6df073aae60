// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "cli/pseudo_terminal.h"
#include "cli/work_display.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ProgressState half_way() {
  return {.label = "copying", .done = kGiB, .total = 2 * kGiB, .moved = kGiB, .elapsed_s = 0.5};
}

TEST(RenderProgress, ShowsLabelBarPercentAmountsRateAndTimeLeft) {
  EXPECT_EQ(render_progress(half_way(), 93),
            "copying  ▕█████████████████                 ▏   50 %      1 of 2 GiB   2.15 GB/s  ETA 0:01   ");
}

TEST(RenderProgress, CountsInItsUnit) {
  ProgressState state{
      .label = "weights", .done = 4, .total = 9, .moved = 4, .elapsed_s = 1, .unit = ProgressUnit::kSlices};
  EXPECT_EQ(render_progress(state, 50), "weights   44 %  4 of 9 slices  ETA 0:02   ");
  EXPECT_EQ(progress_text(state), "weights: 44 %, 4 of 9 slices, ETA 0:02");
  state.unit = ProgressUnit::kRows;
  EXPECT_EQ(progress_text(state), "weights: 44 %, 4 of 9 rows, 4 rows/s, ETA 0:02");
}

TEST(RenderProgress, NeverReachesTheLastColumn) {
  ProgressState state = half_way();
  state.label = "größe";
  for (std::size_t columns = 0; columns < 200; ++columns) {
    EXPECT_LE(display_width(render_progress(state, columns)), columns);
  }
}

TEST(RenderProgress, ANarrowTerminalLosesBarRateAmountsAndTimeLeftInThisOrder) {
  EXPECT_EQ(render_progress(half_way(), 62), "copying   50 %      1 of 2 GiB   2.15 GB/s  ETA 0:01   ");
  EXPECT_EQ(render_progress(half_way(), 39), "copying   50 %  1 of 2 GiB  ETA 0:01   ");
  EXPECT_EQ(render_progress(half_way(), 30), "copying   50 %  ETA 0:01   ");
  EXPECT_EQ(render_progress(half_way(), 16), "copying   50 %");
}

TEST(RenderProgress, DoesNotGuessTheTimeLeftBeforeAnythingMoved) {
  ProgressState state = half_way();
  state.moved = 0;
  EXPECT_THAT(render_progress(state, 100), HasSubstr("ETA -:--"));
  state.moved = 1;
  EXPECT_TRUE(render_progress(state, 100).ends_with("ETA over 99 h"));
}

TEST(RenderProgress, CountsOnlyWhatMovedForTheRate) {
  ProgressState state = half_way();
  state.moved = 100'000'000;
  EXPECT_THAT(render_progress(state, 100), HasSubstr(" 200.0 MB/s"));
}

TEST(PlainProgress, TellsEveryTenPercentButNotOften) {
  PlainProgress plain;
  ProgressState state{.label = "copying", .total = 100};
  std::vector<std::uint64_t> told;
  for (state.done = 0; state.done < 100; ++state.done) {
    state.elapsed_s = static_cast<double>(state.done);  // 1 % a second
    if (plain.is_due(state)) told.push_back(state.done);
  }
  EXPECT_THAT(told, ElementsAre(10, 20, 30, 40, 50, 60, 70, 80, 90));
}

TEST(PlainProgress, TellsEveryHalfMinuteOfSlowWorkAndNothingOfShortWork) {
  PlainProgress plain;
  EXPECT_FALSE(plain.is_due({.label = "short", .done = 100, .total = 100, .elapsed_s = 1}));
  EXPECT_FALSE(plain.is_due({.label = "slow", .done = 1, .total = 100, .elapsed_s = 29}));
  EXPECT_TRUE(plain.is_due({.label = "slow", .done = 1, .total = 100, .elapsed_s = 30}));
}

TEST(RenderCurve, IsAsHighAsTheMeansOfItsParts) {
  const std::vector<double> losses{8, 8, 4, 4, 1, 1};
  EXPECT_EQ(render_curve(losses, 3), "█▄▁");
  EXPECT_EQ(render_curve(losses, 100), "██▄▄▁▁");
  EXPECT_EQ(render_curve(std::vector<double>{2, 2}, 2), "▁▁");
  EXPECT_EQ(render_curve({}, 5), "");
}

TEST(FormatDuration, IsShort) {
  EXPECT_EQ(format_duration(0.7), "0:00");
  EXPECT_EQ(format_duration(187), "3:07");
  EXPECT_EQ(format_duration(3725), "1:02:05");
  EXPECT_EQ(format_duration(400'000), "4 d 15 h");
}

TEST(Terminal, KnowsItsStream) {
  const PseudoTerminal terminal;
  if (terminal.stream() == nullptr) GTEST_SKIP() << "no pseudo-terminals here";
  EXPECT_TRUE(is_terminal(terminal.stream()));
  EXPECT_EQ(terminal_columns(terminal.stream()), 60U);
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(is_terminal(file));
  EXPECT_FALSE(can_redraw(file));
  EXPECT_EQ(terminal_columns(file), 80U);
  std::fclose(file);
}

TEST(RenderTable, CountsColumnsOfWideCharacters) {
  EXPECT_EQ(render_table({"run", "n"}, {{"訓練", "1"}, {"abc", "2"}}),
            "run   n\n"
            "────  ─\n"
            "訓練  1\n"
            "abc   2\n");
}

TEST(RenderTable, BreaksItsWidestTextWhereItIsTooWide) {
  EXPECT_EQ(render_table({"model", "base"}, {{"heads", "4 of 64, 2 for keys and values"}}, 25),
            "model  base\n"
            "─────  ──────────────────\n"
            "heads  4 of 64, 2 for\n"
            "       keys and values\n");
}

TEST(RenderTable, BecomesParagraphsWhereItCannotBeNarrowed) {
  EXPECT_EQ(render_table({"Path", "Free", "Read"}, {{"/a", "1 GiB", "2 GB/s"}, {"/b", "2 GiB", "3 GB/s"}}, 14),
            "Path  /a\n"
            "Free  1 GiB\n"
            "Read  2 GB/s\n"
            "\n"
            "Path  /b\n"
            "Free  2 GiB\n"
            "Read  3 GB/s\n");
}

TEST(RenderTable, AlignsByCodePointsAndPutsNumbersToTheRight) {
  EXPECT_EQ(
      render_table({"Größe", "Size", "Read"}, {{"ä", "1.50 GiB", "12"}, {"longer", "900 MiB", "–"}, {"x", "", "7 %"}}),
      "Größe       Size  Read\n"
      "──────  ────────  ────\n"
      "ä       1.50 GiB    12\n"
      "longer   900 MiB     –\n"
      "x                  7 %\n");
}

TEST(RenderTable, AColumnWithAnyTextStaysToTheLeft) {
  EXPECT_EQ(render_table({"Model", "N"}, {{"970", "1"}, {"970 EVO Plus", "10"}, {"none"}}),
            "Model          N\n"
            "────────────  ──\n"
            "970            1\n"
            "970 EVO Plus  10\n"
            "none\n");
}

}  // namespace
}  // namespace sluice
