// SPDX-License-Identifier: Apache-2.0
// Layout of terminal text in columns: wide and combining characters count by their display width, and this program's
// colour codes ("\033[32m") have width 0. Pure functions.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

std::size_t display_width(std::string_view text);

// The text cut to at most `num_columns`; a cut text ends with "…".
std::string shortened(std::string_view text, std::size_t num_columns);

// Lines wrapped between words; continuation lines are indented, and aligned below the text of a line with a label
// ("plan    30 steps"). A word longer than a line stays whole and is left to the terminal to break, so that paths and
// commands can still be copied.
std::vector<std::string> wrapped(std::string_view text, std::size_t num_columns, std::size_t indent = 0);

// The wrapped lines as one text, each with a line feed.
std::string wrapped_text(std::string_view text, std::size_t num_columns, std::size_t indent = 0);

// Makes untrusted text (file names, row texts) safe to print: control characters and bytes that are not UTF-8 become
// U+FFFD, tabs become blanks, line feeds stay.
std::string printable(std::string_view text);

// A field of a status line. If the line does not fit, fields are shown in brief, then left out, those of the highest
// `rank` first.
struct StatusField {
  std::string text;
  std::string brief = {};  // empty: same as text
  int rank = 0;            // 0: never left out
};

// "label  field  ▕███   ▏  field"
struct StatusLine {
  std::string label;
  std::vector<StatusField> fields;
  // Fills the remaining columns before the field at index `cells_idx` with a bar or a curve; left out if fewer than
  // `least_cells` columns remain. nullptr: no such cells.
  std::function<std::string(std::size_t num_cells)> cells = nullptr;
  std::size_t cells_idx = 0;
  std::size_t least_cells = 0;
  std::size_t most_cells = 0;
};

std::string fit(const StatusLine& line, std::size_t num_columns);

}  // namespace sluice
