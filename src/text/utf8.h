// SPDX-License-Identifier: Apache-2.0
// UTF-8 to code points and back. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

struct CodePoint {
  char32_t value = 0;          // U+FFFD where the bytes are not UTF-8
  std::size_t size_bytes = 0;  // how many bytes it took; 1 where they are not UTF-8
  bool valid = false;
};

// The code point that starts at `text[at]`; at < text.size(). Overlong forms and surrogates are not valid.
CodePoint decode_utf8(std::string_view text, std::size_t at);
void append_utf8(std::string& text, char32_t code_point);
bool is_utf8(std::string_view text);

}  // namespace sluice
