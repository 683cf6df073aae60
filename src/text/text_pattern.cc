// SPDX-License-Identifier: Apache-2.0
#include "text/text_pattern.h"

#include "base/error.h"

namespace sluice {

TextPattern TextPattern::parse(const JsonView& view) {
  if (const auto literal = view.find("String")) {
    if (literal->string().empty()) literal->refuse("a string of at least one character");
    return TextPattern(literal->string());
  }
  const auto pattern = view.find("Regex");
  if (!pattern) view.refuse("{\"String\": ...} or {\"Regex\": ...}");
  try {
    return TextPattern(Regex::from_onig(pattern->string()));
  } catch (const InvalidInput& error) {
    pattern->fail(error.what());
  }
}

PatternSearch::PatternSearch(const TextPattern& pattern) : literal_(std::get_if<std::string>(&pattern.what_)) {
  if (literal_ == nullptr) search_.emplace(std::get<Regex>(pattern.what_));
}

void PatternSearch::begin(std::string_view text) {
  text_ = text;
  from_ = 0;
  if (search_) search_->begin(text);
}

std::optional<RegexMatch> PatternSearch::next() {
  if (search_) return search_->next();
  const std::size_t found = text_.find(*literal_, from_);
  if (found == std::string_view::npos) return std::nullopt;
  from_ = found + literal_->size();
  return RegexMatch{found, from_};
}

}  // namespace sluice
