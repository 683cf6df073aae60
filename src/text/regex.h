// SPDX-License-Identifier: Apache-2.0
// A regular expression of a tokenizer, compiled by PCRE2 with Unicode classes. Immutable and shared by threads; each
// search has a RegexSearch of its own. Searches are bounded: a pattern that backtracks without end is refused. Letters
// that are newer than PCRE2's Unicode (14 in 10.42) are no letters here, while Hugging Face's Oniguruma may know them.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

struct RegexMatch {
  std::size_t begin = 0;
  std::size_t end = 0;
};

class Regex {
 public:
  // Throws InvalidInput that says what PCRE2 or the translation from Oniguruma's syntax has against the pattern.
  static Regex from_onig(std::string_view pattern);
  static Regex from_pcre(std::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

 private:
  friend class RegexSearch;
  struct Compiled;
  explicit Regex(std::unique_ptr<Compiled> compiled);

  std::unique_ptr<Compiled> compiled_;
};

// One thread's searches with one expression; borrows it.
class RegexSearch {
 public:
  explicit RegexSearch(const Regex& regex);
  RegexSearch(const RegexSearch&) = delete;
  RegexSearch& operator=(const RegexSearch&) = delete;
  ~RegexSearch();

  // Starts on `text`, which is UTF-8 and outlives the search.
  void begin(std::string_view text);
  // Matches from left to right that do not overlap; no empty one right behind another match.
  std::optional<RegexMatch> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
