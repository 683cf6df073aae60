// SPDX-License-Identifier: Apache-2.0
#include "cli/text_layout.h"

#include <algorithm>
#include <utility>

#include "text/char_width.h"
#include "text/utf8.h"

namespace sluice {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::string_view kEndOfColour = "\033[0m";

// The size of a colour's escape sequence at `at`; 0: no such sequence there.
std::size_t colour_size(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) != "\033[") return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", at + 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 - at : 0;
}

const std::string& text_of(const StatusField& field, bool is_brief) {
  return is_brief && !field.brief.empty() ? field.brief : field.text;
}

// How a status line is shortened: fields of rank `brief_rank` and above are brief, those above `top_rank` left out.
struct Choice {
  int top_rank = 0;
  int brief_rank = 0;

  bool takes(const StatusField& field) const { return field.rank <= top_rank; }
  bool is_brief(const StatusField& field) const { return field.rank >= brief_rank; }
};

std::size_t chosen_width(const StatusLine& line, const Choice& choice) {
  std::size_t width = display_width(line.label);
  for (const StatusField& field : line.fields) {
    if (choice.takes(field)) width += kGap + display_width(text_of(field, choice.is_brief(field)));
  }
  return width;
}

Choice choose(const StatusLine& line, std::size_t num_columns) {
  Choice choice;
  for (const StatusField& field : line.fields) choice.top_rank = std::max(choice.top_rank, field.rank);
  choice.brief_rank = choice.top_rank + 1;
  while (choice.brief_rank > 0 && chosen_width(line, choice) > num_columns) --choice.brief_rank;
  while (choice.top_rank > 0 && chosen_width(line, choice) > num_columns) --choice.top_rank;
  // Dropping fields may have made room for some of the remaining ones in full.
  for (Choice fuller = choice; fuller.brief_rank <= choice.top_rank;) {
    ++fuller.brief_rank;
    if (chosen_width(line, fuller) > num_columns) break;
    choice = fuller;
  }
  return choice;
}

// Where the text of "plan    30 steps …" begins; 0: the line has no label.
std::size_t label_size(std::string_view text) {
  constexpr std::size_t kMostLabel = 16;
  const std::size_t blanks = text.find("  ");
  if (blanks > kMostLabel || text.find(' ') != blanks) return 0;  // no gap, too far right, or words before it
  return std::min(text.find_first_not_of(' ', blanks), text.size());
}

// Wraps a line that is longer than `num_columns`.
std::vector<std::string> broken_line(std::string_view text, std::size_t num_columns, std::size_t indent) {
  // Leading blanks and a label are kept: continuation lines are aligned below the text.
  const std::size_t blanks = std::min(text.find_first_not_of(' '), text.size());
  const std::size_t label = label_size(text.substr(blanks));
  if (label > 0) indent = label;
  std::vector<std::string> lines;
  for (std::string_view rest = text.substr(blanks + label); !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (lines.empty()) {
      lines.push_back(std::string(text.substr(0, blanks + label)) + std::string(word));
    } else if (display_width(lines.back()) + 1 + display_width(word) <= num_columns ||
               blanks + indent + display_width(word) > num_columns) {
      lines.back() += ' ';
      lines.back() += word;
    } else {
      lines.push_back(std::string(blanks + indent, ' ') + std::string(word));
    }
  }
  return lines;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t size = colour_size(text, at); size > 0) {
      at += size;
      continue;
    }
    const CodePoint point = decode_utf8(text, at);
    width += char_width(point.value);
    at += point.size_bytes;
  }
  return width;
}

std::string shortened(std::string_view text, std::size_t num_columns) {
  if (display_width(text) <= num_columns) return std::string(text);
  if (num_columns == 0) return {};
  std::size_t at = 0;
  bool is_coloured = false;
  for (std::size_t width = 0; at < text.size();) {
    if (const std::size_t size = colour_size(text, at); size > 0) {
      is_coloured = text.substr(at, size) != kEndOfColour;
      at += size;
      continue;
    }
    const CodePoint point = decode_utf8(text, at);
    width += char_width(point.value);
    if (width > num_columns - 1) break;
    at += point.size_bytes;
  }
  return std::string(text.substr(0, at)) + "…" + std::string(is_coloured ? kEndOfColour : "");
}

std::vector<std::string> wrapped(std::string_view text, std::size_t num_columns, std::size_t indent) {
  std::vector<std::string> all;
  while (true) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (display_width(line) <= num_columns) {
      all.emplace_back(line);
    } else {
      for (std::string& part : broken_line(line, num_columns, indent)) all.push_back(std::move(part));
    }
    if (line.size() == text.size()) return all;
    text.remove_prefix(line.size() + 1);
  }
}

std::string wrapped_text(std::string_view text, std::size_t num_columns, std::size_t indent) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::string whole;
  for (const std::string& line : wrapped(text, num_columns, indent)) whole += line + "\n";
  return whole;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const bool is_control = (point.value < 0x20 && point.value != '\n') || (point.value >= 0x7F && point.value < 0xA0);
    if (point.value == '\t') {
      out += ' ';
    } else if (is_control || !point.valid) {
      append_utf8(out, 0xFFFD);
    } else {
      out += text.substr(at, point.size_bytes);
    }
    at += point.size_bytes;
  }
  return out;
}

std::string fit(const StatusLine& line, std::size_t num_columns) {
  const Choice choice = choose(line, num_columns);
  std::string before = line.label;
  std::string after;
  for (std::size_t idx = 0; idx < line.fields.size(); ++idx) {
    const StatusField& field = line.fields[idx];
    if (!choice.takes(field)) continue;
    std::string& part = line.cells && idx >= line.cells_idx ? after : before;
    part += std::string(&part == &after || !part.empty() ? kGap : 0, ' ');
    part += text_of(field, choice.is_brief(field));
  }
  const std::size_t taken = display_width(before) + display_width(after) + kGap;
  if (line.cells && num_columns >= taken + line.least_cells) {
    before += std::string(kGap, ' ') + line.cells(std::min(num_columns - taken, line.most_cells));
  }
  return shortened(before + after, num_columns);  // even the last fields may be too long
}

}  // namespace sluice
