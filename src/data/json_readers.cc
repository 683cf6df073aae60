// SPDX-License-Identifier: Apache-2.0
// JSON lines and JSON arrays. A row's text is cut out first, without understanding it, so that one that is wrong spoils
// no other, then parsed.
#include <fmt/format.h>

#include "data/format_readers.h"

namespace sluice {
namespace {

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\r\n") == std::string::npos; }

}  // namespace

std::optional<Row> JsonLinesReader::next(RowProblems& problems) {
  std::string text;
  while (source().peek() != CharSource::kEnd) {
    const std::uint64_t line = source().line();
    text.clear();
    bool too_large = false;
    for (int c = source().get(); c != CharSource::kEnd && c != '\n'; c = source().get()) {
      too_large = text.size() >= limits().max_row_bytes;
      if (too_large) {
        source().skip_line();
        break;
      }
      text.push_back(static_cast<char>(c));
    }
    if (too_large) {
      report_too_large(problems, line);
      continue;
    }
    if (is_blank(text)) continue;
    try {
      return Row{.value = parse_row_json(text, "", limits().interrupted), .line = line};
    } catch (const BadRow& bad) {
      report(problems, line, bad.key(), bad.what());
    }
  }
  return std::nullopt;
}

void JsonReader::start() {
  source().skip_blanks();
  if (source().peek() == '[') {
    source().get();
    state_ = State::kFirstOfArray;
  } else {
    state_ = State::kSequence;
  }
}

bool JsonReader::at_row_of_array(RowProblems& problems) {
  const bool first = state_ == State::kFirstOfArray;
  state_ = State::kInArray;
  while (source().peek() == ',') {
    if (first) report(problems, source().line(), "", "a comma stands before the first row; remove it");
    source().get();
    source().skip_blanks();
  }
  if (source().peek() == CharSource::kEnd) {
    report(problems, source().line(), "", "the file ends before the ] of its array of rows; was it cut off?");
    state_ = State::kDone;
    return false;
  }
  if (source().peek() != ']') return true;
  source().get();
  source().skip_blanks();
  if (source().peek() != CharSource::kEnd) {
    report(
        problems, source().line(), "",
        "something follows the ] of the array of rows; put all rows into one array, or one row a line into a .jsonl");
  }
  state_ = State::kDone;
  return false;
}

bool JsonReader::at_row(RowProblems& problems) {
  if (state_ == State::kStart) start();
  source().skip_blanks();
  if (state_ == State::kDone) return false;
  if (state_ == State::kSequence) return source().peek() != CharSource::kEnd;
  return at_row_of_array(problems);
}

// To the comma or ] behind the element, or to where a sequence's element closes. No string has a line end in it, so a
// quote that was forgotten is forgiven at the end of its line.
JsonReader::Element JsonReader::read_element() {
  text_.clear();
  bool too_large = false;
  bool in_string = false;
  bool escaped = false;
  std::size_t depth = 0;
  for (int c = source().peek(); c != CharSource::kEnd; c = source().peek()) {
    if (depth == 0 && !in_string) {
      if (state_ == State::kInArray && (c == ',' || c == ']')) break;
      if (state_ == State::kSequence && (c == '\n' || c == ' ')) break;
    }
    source().get();
    if (text_.size() >= limits().max_row_bytes) too_large = true;
    if (!too_large) text_.push_back(static_cast<char>(c));
    if (in_string) {
      if (c == '\n' || (c == '"' && !escaped)) in_string = false;
      escaped = c == '\\' && !escaped;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && depth > 0 && --depth == 0 && state_ == State::kSequence) break;
  }
  if (too_large) return Element::kTooLarge;
  return depth > 0 ? Element::kCutOff : Element::kWhole;
}

std::optional<Row> JsonReader::next(RowProblems& problems) {
  while (at_row(problems)) {
    const std::uint64_t line = source().line();
    const Element element = read_element();
    if (element == Element::kTooLarge) {
      report_too_large(problems, line);
    } else if (element == Element::kCutOff) {
      report(problems, line, "", "the file ends inside this row; was it cut off, or is a bracket missing?");
      state_ = State::kDone;
    } else {
      try {
        return Row{.value = parse_row_json(text_, "", limits().interrupted), .line = line};
      } catch (const BadRow& bad) {
        report(problems, line, bad.key(), bad.what());
      }
    }
  }
  return std::nullopt;
}

}  // namespace sluice
