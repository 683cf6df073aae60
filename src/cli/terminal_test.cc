// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "base/units.h"

namespace sluice {
namespace {

constexpr std::int64_t kMs = 1'000'000;

ProgressState half_way() {
  return {.label = "copying", .done_bytes = kGiB, .total_bytes = 2 * kGiB, .moved_bytes = kGiB, .elapsed_s = 0.5};
}

TEST(RenderProgress, ShowsLabelBarPercentSizesRateAndTimeLeft) {
  EXPECT_EQ(render_progress(half_way(), 93),
            "copying  ▕████████████▌            ▏   50 %        1 GiB / 2 GiB    2.15 GB/s  ETA 0:01");
}

TEST(RenderProgress, NeverReachesTheLastColumn) {
  ProgressState state = half_way();
  state.label = "größe";
  for (std::size_t columns = 0; columns < 200; ++columns) {
    EXPECT_LT(display_width(render_progress(state, columns)), std::max<std::size_t>(columns, 1));
  }
}

TEST(RenderProgress, ANarrowTerminalLosesTheBarFirst) {
  EXPECT_EQ(render_progress(half_way(), 62), "copying   50 %        1 GiB / 2 GiB    2.15 GB/s  ETA 0:01");
  EXPECT_EQ(render_progress(half_way(), 16), "copying   50 % ");
}

TEST(RenderProgress, ShowsHundredPercentAndTheTimeTakenOnlyAtTheEnd) {
  ProgressState state = half_way();
  state.elapsed_s = 3725;
  state.done_bytes = state.total_bytes - 1;
  EXPECT_NE(render_progress(state, 100).find(" 99 %"), std::string::npos);
  state.done_bytes = state.total_bytes;
  EXPECT_NE(render_progress(state, 100).find("100 %"), std::string::npos);
  EXPECT_TRUE(render_progress(state, 100).ends_with("in 1:02:05"));
}

TEST(RenderProgress, DoesNotGuessTheTimeLeftBeforeAnythingMoved) {
  ProgressState state = half_way();
  state.moved_bytes = 0;
  EXPECT_TRUE(render_progress(state, 100).ends_with("ETA -:--"));
  state.moved_bytes = 1;
  EXPECT_TRUE(render_progress(state, 100).ends_with("ETA over 99 h"));
}

TEST(RenderProgress, CountsOnlyWhatMovedForTheRate) {
  ProgressState state = half_way();
  state.moved_bytes = 100'000'000;
  EXPECT_NE(render_progress(state, 100).find(" 0.20 GB/s"), std::string::npos);
}

// The two ends of a pseudo-terminal 60 columns wide.
class Terminal {
 public:
  Terminal() {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) return;
    std::array<char, 128> name{};
    if (::ptsname_r(master_, name.data(), name.size()) != 0) return;
    slave_ = std::fopen(name.data(), "w");
    if (slave_ == nullptr) return;
    termios raw{};
    ::tcgetattr(::fileno(slave_), &raw);
    ::cfmakeraw(&raw);
    ::tcsetattr(::fileno(slave_), TCSANOW, &raw);
    const winsize size{.ws_row = 24, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(::fileno(slave_), TIOCSWINSZ, &size);
  }
  ~Terminal() {
    if (slave_ != nullptr) std::fclose(slave_);
    if (master_ >= 0) ::close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::FILE* stream() const { return slave_; }
  std::string drawn() const {
    std::string text;
    std::array<char, 4096> piece{};
    for (ssize_t count = 0; (count = ::read(master_, piece.data(), piece.size())) > 0;) {
      text.append(piece.data(), static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int master_ = -1;
  std::FILE* slave_ = nullptr;
};

TEST(ProgressBar, DrawsNothingWhereThereIsNoTerminal) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(is_terminal(file));
  EXPECT_EQ(terminal_columns(file), 80U);
  const ManualClock clock;
  {
    ProgressBar bar(clock, file);
    bar.update("copying", 1, 2);
    bar.finish();
  }
  std::fseek(file, 0, SEEK_END);
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

TEST(ProgressBar, RedrawsTenTimesASecondAtMost) {
  const Terminal terminal;
  if (terminal.stream() == nullptr) GTEST_SKIP() << "no pseudo-terminals here";
  EXPECT_TRUE(is_terminal(terminal.stream()));
  EXPECT_EQ(terminal_columns(terminal.stream()), 60U);
  ManualClock clock;
  ProgressBar bar(clock, terminal.stream());
  for (std::uint64_t done = 0; done < 1000; ++done) {
    bar.update("copying", done, 1000);
    clock.advance_ns(kMs);
  }
  const std::string drawn = terminal.drawn();
  EXPECT_EQ(std::count(drawn.begin(), drawn.end(), '\r'), 10);
  EXPECT_EQ(drawn.find('\n'), std::string::npos);
}

TEST(ProgressBar, EndsWithTheFinalStateOnALineOfItsOwn) {
  const Terminal terminal;
  if (terminal.stream() == nullptr) GTEST_SKIP() << "no pseudo-terminals here";
  ManualClock clock;
  {
    ProgressBar bar(clock, terminal.stream());
    bar.update("copying", 0, kGiB);
    clock.advance_ns(10 * kMs);
    bar.update("copying", kGiB, kGiB);
    bar.update("checking", kGiB, 4 * kGiB);
    clock.advance_ns(1000 * kMs);
    bar.update("checking", 2 * kGiB, 4 * kGiB);
  }
  const std::string drawn = terminal.drawn();
  const std::size_t first_end = drawn.find('\n');
  EXPECT_NE(drawn.substr(0, first_end).find("100 %"), std::string::npos);
  // One blank rubs out the end of "ETA -:--".
  EXPECT_TRUE(drawn.substr(0, first_end).ends_with("in 0:01 ")) << drawn;
  EXPECT_TRUE(drawn.substr(first_end + 1).starts_with("\rchecking   25 %")) << drawn;
  EXPECT_NE(drawn.find("1.07 GB/s", first_end), std::string::npos) << drawn;
  EXPECT_TRUE(drawn.ends_with("\n"));
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
