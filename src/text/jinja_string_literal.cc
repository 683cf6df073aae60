// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_string_literal.h"

#include <charconv>
#include <cstdint>

#include "text/utf8.h"

namespace sluice {
namespace {

std::optional<std::uint32_t> parse_digits(std::string_view digits, int base) {
  std::uint32_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (digits.empty() || result.ec != std::errc{} || result.ptr != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// What a backslash and this letter stand for; 0 where it is no such letter.
char simple_escape(char letter) {
  switch (letter) {
    case '\\':
    case '\'':
    case '"':
      return letter;
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    default:
      return '\0';
  }
}

}  // namespace

std::optional<std::string> unescape_python(std::string_view literal) {
  std::string text;
  for (std::size_t at = 0; at < literal.size(); ++at) {
    if (literal[at] != '\\' || at + 1 >= literal.size()) {
      text += literal[at];
      continue;
    }
    const char letter = literal[++at];
    if (const char plain = simple_escape(letter); plain != '\0') {
      text += plain;
    } else if (letter == '\n') {
      continue;
    } else if (letter >= '0' && letter <= '7') {
      std::size_t num_digits = 1;
      while (num_digits < 3 && at + num_digits < literal.size() && literal[at + num_digits] >= '0' &&
             literal[at + num_digits] <= '7') {
        ++num_digits;
      }
      append_utf8(text, *parse_digits(literal.substr(at, num_digits), 8));
      at += num_digits - 1;
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      const std::size_t num_digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
      if (at + num_digits >= literal.size()) return std::nullopt;
      const std::optional<std::uint32_t> code = parse_digits(literal.substr(at + 1, num_digits), 16);
      if (!code || *code > 0x10FFFF || (*code >= 0xD800 && *code <= 0xDFFF)) return std::nullopt;
      append_utf8(text, *code);
      at += num_digits;
    } else if (letter == 'N') {
      return std::nullopt;
    } else {
      text += '\\';
      text += letter;
    }
  }
  return text;
}

}  // namespace sluice
