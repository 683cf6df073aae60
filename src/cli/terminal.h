// SPDX-License-Identifier: Apache-2.0
// Capabilities of a standard stream, and the command line's drawing: bars, curves and tables. Pure functions but for
// queries of the stream and the environment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "cli/text_layout.h"

namespace sluice {

bool is_terminal(std::FILE* stream);
// Whether the cursor can be moved to draw over lines: a terminal with TERM other than "dumb".
bool can_redraw(std::FILE* stream);
// Whether colours may be used: can_redraw() and NO_COLOR is not set.
bool wants_colour(std::FILE* stream);

// 80 where the stream does not tell.
std::size_t terminal_columns(std::FILE* stream);

// Line width for text on standard output: the terminal's columns minus one; unlimited without a terminal.
std::size_t output_columns();

// Sentences on standard output, wrapped on a terminal. Ends with a line feed.
void print_text(std::string_view text);

// Prints a line on standard error, wrapped on a terminal. Write errors are ignored: a missing reader must not end the
// work.
void tell(std::string_view line);

// As many eighths of `num_cells` as the fraction is, from 0 to 1; nothing behind them.
std::string render_bar(double fraction, std::size_t num_cells);
// "▕███▌   ▏", `num_columns` wide.
std::string framed_bar(double fraction, std::size_t num_columns);
// A sparkline: the values are averaged over equal parts and scaled between their minimum and maximum.
std::string render_curve(std::span<const double> values, std::size_t num_cells);

// "3:07", "1:02:05", "4 d 3 h"
std::string format_duration(double seconds);
// "1,234,567"
std::string format_whole(std::uint64_t number);

struct ProgressState {
  std::string label;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  std::uint64_t moved = 0;  // in elapsed_s; less than `done` if the work resumed an earlier attempt
  double elapsed_s = 0;
  ProgressUnit unit = ProgressUnit::kBytes;
};

// "copying  ▕██████▌     ▏   54 %  1.50 of 2.78 GiB  2.31 GB/s  ETA 0:42", at most `num_columns` wide. A narrow
// terminal drops the bar first, then throughput, amounts and ETA.
std::string render_progress(const ProgressState& state, std::size_t num_columns);

// "copying: 54 %, 1.50 of 2.78 GiB, 2.31 GB/s, ETA 0:42", for a log.
std::string progress_text(const ProgressState& state);

// Columns two blanks apart under an underlined header; those that hold only numbers (with a unit or not, or a dash for
// none) are aligned to the right. Rows may be shorter than the header. Ends with a newline. Where the table is wider
// than `num_columns`, its widest column of text is broken into lines, or each row becomes a paragraph.
std::string render_table(const std::vector<std::string>& headers, const std::vector<std::vector<std::string>>& rows,
                         std::size_t num_columns = SIZE_MAX);

}  // namespace sluice
