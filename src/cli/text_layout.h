// SPDX-License-Identifier: Apache-2.0
// Text on a terminal by the columns it takes: wide and combining characters count as they are shown, and the colours
// that this program writes ("\033[32m") take none. Pure functions.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

std::size_t display_width(std::string_view text);

// At most `num_columns` of it; where something is left out it ends with "…".
std::string shortened(std::string_view text, std::size_t num_columns);

// Lines broken between words; those after the first are indented, below the text where the line begins with a label
// ("plan    30 steps"). A word that is longer than a line stays whole, so
// that a path or a command can still be copied: the terminal breaks it.
std::vector<std::string> wrapped(std::string_view text, std::size_t num_columns, std::size_t indent = 0);

// The same as one text, each line with its line feed.
std::string wrapped_text(std::string_view text, std::size_t num_columns, std::size_t indent = 0);

// What others wrote (names of files, texts of rows): control characters and bytes that are not UTF-8 become U+FFFD,
// tabs blanks. Line feeds stay.
std::string printable(std::string_view text);

// A part of a status line. Where the line does not fit, parts are shown in brief, then left out, the highest `rank`
// first.
struct StatusField {
  std::string text;
  std::string brief = {};  // empty: the same
  int rank = 0;            // 0 stays to the last
};

// "label  field  ▕███   ▏  field"
struct StatusLine {
  std::string label;
  std::vector<StatusField> fields;
  // What takes the room that is left, before the field of index `cells_idx`: a bar or a curve of so many columns, left
  // out where fewer than `least_cells` are left. None: empty.
  std::function<std::string(std::size_t num_cells)> cells = nullptr;
  std::size_t cells_idx = 0;
  std::size_t least_cells = 0;
  std::size_t most_cells = 0;
};

std::string fit(const StatusLine& line, std::size_t num_columns);

}  // namespace sluice
