// SPDX-License-Identifier: Apache-2.0
// What a tokenizer looks for in a text: {"String": "..."} or {"Regex": "..."}. Immutable, shared by threads; each
// search has a PatternSearch of its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "text/json_view.h"
#include "text/regex.h"

namespace sluice {

class TextPattern {
 public:
  static TextPattern parse(const JsonView& view);
  explicit TextPattern(std::string literal) : what_(std::move(literal)) {}
  explicit TextPattern(Regex regex) : what_(std::move(regex)) {}

 private:
  friend class PatternSearch;
  std::variant<std::string, Regex> what_;
};

// Borrows the pattern. Used as RegexSearch is.
class PatternSearch {
 public:
  explicit PatternSearch(const TextPattern& pattern);

  void begin(std::string_view text);
  std::optional<RegexMatch> next();

 private:
  const std::string* literal_;
  std::optional<RegexSearch> search_;
  std::string_view text_;
  std::size_t from_ = 0;
};

}  // namespace sluice
