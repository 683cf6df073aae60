// SPDX-License-Identifier: Apache-2.0
// Patterns of tokenizer.json are written for Oniguruma, with its default (Ruby) syntax. This says the same to PCRE2
// where the two differ: \s, \w, \h, \uXXXX, and `{n,m}+`, which is a repeated interval there and a possessive one here.
// `^`, `$` and `.` differ as well: Regex compiles with the options for them. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

struct PatternTranslation {
  std::string pattern;
  std::string refused;  // what cannot be said to PCRE2; empty where all can
};

PatternTranslation translate_onig_pattern(std::string_view pattern);

// Members of a class for PCRE2: what \w and \s are to Rust's regex, which takes joiners for parts of words.
std::string_view rust_word_members();
std::string_view space_members();

}  // namespace sluice
