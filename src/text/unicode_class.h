// SPDX-License-Identifier: Apache-2.0
// Questions about single code points, answered as Rust's char does: white space is the property White_Space, numeric
// is general category N, punctuation is P. Pure functions; the Unicode version is utf8proc's.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice {

bool is_space(char32_t c);
bool is_numeric(char32_t c);
bool is_punctuation(char32_t c);  // P, or ASCII punctuation of any category
bool is_mark(char32_t c);         // Mn, Mc, Me
bool is_nonspacing_mark(char32_t c);
bool is_control(char32_t c);         // Cc, Cf, Co
bool is_word_character(char32_t c);  // what \w is to Rust's regex
bool is_cjk_ideograph(char32_t c);
char32_t to_lower(char32_t c);  // one to one; U+0130 is the only code point for which Unicode has more than one

// How many bytes of white space `text` begins or ends with.
std::size_t leading_space_bytes(std::string_view text);
std::size_t trailing_space_bytes(std::string_view text);

// The code point that ends right before `end`; U+FFFD where there is none.
char32_t code_point_before(std::string_view text, std::size_t end);

}  // namespace sluice
