// SPDX-License-Identifier: Apache-2.0
// What a standard stream can show, and what the command line draws for people: bars, curves and tables. Pure functions
// but for what they ask of the stream and the environment.
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
// Whether lines may be drawn over: a terminal that TERM does not call dumb.
bool can_redraw(std::FILE* stream);
// The same, and NO_COLOR is not set.
bool wants_colour(std::FILE* stream);

// 80 where the stream does not tell.
std::size_t terminal_columns(std::FILE* stream);

// For text on standard output: one less than the terminal's; without a terminal no line is too long.
std::size_t output_columns();

// Sentences on standard output, wrapped on a terminal. Ends with a line feed.
void print_text(std::string_view text);

// A line on standard error, wrapped on a terminal. One that cannot be written is lost: work does not end for want of a
// reader.
void tell(std::string_view line);

// As many eighths of `num_cells` as the fraction is, from 0 to 1; nothing behind them.
std::string render_bar(double fraction, std::size_t num_cells);
// "▕███▌   ▏", `num_columns` wide.
std::string framed_bar(double fraction, std::size_t num_columns);
// Means of equal parts of the values, as heights between the lowest and the highest of them.
std::string render_curve(std::span<const double> values, std::size_t num_cells);

// "3:07", "1:02:05", "4 d 3 h"
std::string format_duration(double seconds);
// "1,234,567"
std::string format_whole(std::uint64_t number);

struct ProgressState {
  std::string label;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  std::uint64_t moved = 0;  // in elapsed_s; less than done where work took up what was begun earlier
  double elapsed_s = 0;
  ProgressUnit unit = ProgressUnit::kBytes;
};

// "copying  ▕██████▌     ▏   54 %  1.50 of 2.78 GiB  2.31 GB/s  ETA 0:42", at most so many columns. In a narrow
// terminal the bar goes first, then rate, amounts and time left.
std::string render_progress(const ProgressState& state, std::size_t num_columns);

// "copying: 54 %, 1.50 of 2.78 GiB, 2.31 GB/s, ETA 0:42", for a log.
std::string progress_text(const ProgressState& state);

// Columns two blanks apart under an underlined header; those that hold only numbers (with a unit or not, or a dash for
// none) are aligned to the right. Rows may be shorter than the header. Ends with a newline. Where the table is wider
// than `num_columns`, its widest column of text is broken into lines, or each row becomes a paragraph.
std::string render_table(const std::vector<std::string>& headers, const std::vector<std::vector<std::string>>& rows,
                         std::size_t num_columns = SIZE_MAX);

}  // namespace sluice
