// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal_screen.h"

#include <fcntl.h>

#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "cli/pseudo_terminal.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TerminalScreenTest : public testing::Test {
 protected:
  void SetUp() override {
    if (terminal_.stream() == nullptr) GTEST_SKIP() << "no pseudo-terminals here";
  }
  ScreenOptions options() const { return {.fd = terminal_.fd(), .redraws = true}; }

  PseudoTerminal terminal_;
  std::vector<std::string> area_{"one", "two"};
  TerminalScreen::Painter painter_ = [this](std::size_t) { return area_; };
};

TEST_F(TerminalScreenTest, TheAreaIsDrawnOverLineByLineAndOnlyWhereItHasChanged) {
  TerminalScreen screen(options());
  screen.set_area(painter_);
  screen.tick();
  EXPECT_EQ(terminal_.drawn(), "\033[?7lone\ntwo\n\033[?7h");
  screen.tick();
  EXPECT_EQ(terminal_.drawn(), "");
  area_ = {"1", "two"};
  screen.tick();
  EXPECT_EQ(terminal_.drawn(), "\r\033[2A\033[?7l1\033[K\ntwo\033[K\n\033[J\033[?7h");
}

TEST_F(TerminalScreenTest, MessagesAndLogLinesStandAboveTheArea) {
  TerminalScreen screen(options());
  screen.set_area(painter_);
  screen.tick();
  terminal_.drawn();
  screen.print("saved checkpoint-4");
  EXPECT_EQ(terminal_.drawn(), "\r\033[2A\033[Jsaved checkpoint-4\n\033[?7lone\ntwo\n\033[?7h");
  log_warning("the trace ends here");
  EXPECT_EQ(terminal_.drawn(), "\r\033[2A\033[Jwarning: the trace ends here\n\033[?7lone\ntwo\n\033[?7h");
}

TEST_F(TerminalScreenTest, NothingOfTheAreaIsLeftAtTheEnd) {
  {
    TerminalScreen screen(options());
    screen.set_area(painter_);
    screen.tick();
    terminal_.drawn();
  }
  EXPECT_EQ(terminal_.drawn(), "\r\033[2A\033[J");
}

TEST_F(TerminalScreenTest, AnAreaThatANarrowerTerminalHasBrokenIsErasedWhole) {
  area_ = {std::string(59, 'x'), "two"};
  TerminalScreen screen(options());
  screen.set_area([this](std::size_t num_columns) {
    return std::vector<std::string>{area_[0].substr(0, num_columns), area_[1]};
  });
  screen.tick();
  terminal_.drawn();
  terminal_.resize(25);
  screen.tick();
  EXPECT_EQ(terminal_.drawn(), "\r\033[4A\033[J\033[?7l" + std::string(24, 'x') + "\ntwo\n\033[?7h");
}

TEST_F(TerminalScreenTest, AnAreaIsNeverTallerThanTheTerminal) {
  area_.assign(40, "line");
  TerminalScreen screen(options());
  screen.set_area(painter_);
  screen.tick();
  const std::string drawn = terminal_.drawn();
  EXPECT_EQ(std::count(drawn.begin(), drawn.end(), '\n'), 23);
}

TEST_F(TerminalScreenTest, LongMessagesAreWrappedAndForeignEscapesAreNot) {
  TerminalScreen screen(options());
  screen.print("plan    thirty steps of five hundred and twelve tokens, each of them long\033[2J");
  EXPECT_EQ(terminal_.drawn(),
            "plan    thirty steps of five hundred and twelve tokens,\n        each of them long\uFFFD[2J\n");
}

TEST_F(TerminalScreenTest, ColoursOnlyWhereTheyAreWanted) {
  {
    TerminalScreen screen(options());
    screen.print("warning: plain");
    EXPECT_EQ(terminal_.drawn(), "warning: plain\n");
  }
  ScreenOptions coloured = options();
  coloured.colours = true;
  TerminalScreen screen(coloured);
  screen.print("warning: yellow");
  EXPECT_EQ(terminal_.drawn(), "\033[33mwarning:\033[0m yellow\n");
}

TEST_F(TerminalScreenTest, ATerminalThatIsStoppedHoldsNobodyUp) {
  TerminalScreen screen(options());
  terminal_.stop();
  screen.set_area(painter_);
  screen.tick();
  screen.print("later");
  EXPECT_EQ(terminal_.drawn(), "");
  terminal_.go_on();
  screen.tick();
  EXPECT_EQ(terminal_.drawn(), "later\n\033[?7lone\ntwo\n\033[?7h");
}

TEST_F(TerminalScreenTest, ATerminalThatGoesAwayEndsThePrintingAlone) {
  TerminalScreen screen(options());
  terminal_.hang_up();
  screen.print("unheard");
  EXPECT_THAT(screen.failure(), HasSubstr("Input/output error"));
  screen.tick();
}

TEST_F(TerminalScreenTest, WithoutRedrawsThereAreMessagesAloneAndNoEscapes) {
  TerminalScreen screen({.fd = terminal_.fd(), .redraws = false});
  screen.set_area(painter_);
  screen.tick();
  const std::string sentence(200, 'x');
  screen.print(sentence);
  log_warning("low");
  EXPECT_EQ(terminal_.drawn(), sentence + "\nwarning: low\n");
}

TEST(TerminalScreen, AFullDriveIsToldToTheListenerOnce) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  std::vector<std::string> heard;
  {
    TerminalScreen screen({.fd = full});
    screen.print("one");
    screen.set_listener([&](const std::string& message) { heard.push_back(message); });
    screen.print("two");
    screen.set_listener(nullptr);
  }
  EXPECT_THAT(heard, ElementsAre("one",
                                 "standard error cannot be written (No space left on device); nothing more is printed "
                                 "there",
                                 "two"));
  ::close(full);
}

}  // namespace
}  // namespace sluice
