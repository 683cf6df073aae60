// SPDX-License-Identifier: Apache-2.0
// What the command line draws for people: bars and tables. Widths count UTF-8 code points, so text is taken
// to have none that are wide or combine. Not thread-safe: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace sluice {

inline constexpr std::int64_t kRedrawNs = 100'000'000;  // between two pictures of one line

bool is_terminal(std::FILE* stream);

// 80 where the stream does not tell.
std::size_t terminal_columns(std::FILE* stream);

std::size_t display_width(std::string_view text);
// The first `width` code points.
std::string_view clipped(std::string_view text, std::size_t width);

// As many eighths of `num_cells` as the fraction is, from 0 to 1; nothing behind them.
std::string render_bar(double fraction, std::size_t num_cells);

struct ProgressState {
  std::string label;
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t moved_bytes = 0;  // in elapsed_s; less than done where work took up what was begun earlier
  double elapsed_s = 0;
};

// "copying  ▕██████▌     ▏   54 %    1.50 GiB / 2.78 GiB    2.31 GB/s  ETA 0:42", one column less than there are, so
// that no terminal wraps it. In a narrow one the bar goes first, then the end of the line.
std::string render_progress(const ProgressState& state, std::size_t num_columns);

// One line that is drawn over again, at most ten times a second, and not at all where the stream is no terminal.
// A new label starts a new line. Borrows clock and stream.
class ProgressBar {
 public:
  explicit ProgressBar(const Clock& clock, std::FILE* stream = stderr);
  ~ProgressBar() { finish(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::string_view label, std::uint64_t done_bytes, std::uint64_t total_bytes);
  // Draws the last state and ends the line; the next update starts another.
  void finish();

 private:
  void draw();

  const Clock& clock_;
  std::FILE* stream_;
  bool visible_;
  bool line_open_ = false;
  ProgressState state_;
  std::uint64_t first_done_bytes_ = 0;
  std::int64_t start_ns_ = 0;
  std::int64_t last_draw_ns_ = 0;
  std::size_t drawn_width_ = 0;
};

// Columns two blanks apart under an underlined header; those that hold only numbers (with a unit or not, or a dash for
// none) are aligned to the right. Rows may be shorter than the header. Ends with a newline.
std::string render_table(const std::vector<std::string>& headers, const std::vector<std::vector<std::string>>& rows);

}  // namespace sluice
