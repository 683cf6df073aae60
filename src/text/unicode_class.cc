// SPDX-License-Identifier: Apache-2.0
#include "text/unicode_class.h"

#include <utf8proc.h>

#include "text/utf8.h"

namespace sluice {
namespace {

utf8proc_category_t category_of(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool is_between(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || is_between(c, 0x09, 0x0D);
  if (c == 0x85) return true;
  const auto category = category_of(c);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return is_between(c, '0', '9');
  const auto category = category_of(c);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) {
    return is_between(c, 0x21, 0x2F) || is_between(c, 0x3A, 0x40) || is_between(c, 0x5B, 0x60) ||
           is_between(c, 0x7B, 0x7E);
  }
  const auto category = category_of(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_mark(char32_t c) {
  const auto category = category_of(c);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_MN; }

bool is_control(char32_t c) {
  const auto category = category_of(c);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
}

bool is_word_character(char32_t c) {
  if (c < 0x80) return is_between(c, 'a', 'z') || is_between(c, 'A', 'Z') || is_between(c, '0', '9') || c == '_';
  // Joiners, and letters in circles and squares, which are alphabetic symbols.
  if (c == 0x200C || c == 0x200D || is_between(c, 0x24B6, 0x24E9)) return true;
  if (is_between(c, 0x1F130, 0x1F149) || is_between(c, 0x1F150, 0x1F169) || is_between(c, 0x1F170, 0x1F189))
    return true;
  const auto category = category_of(c);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC;
}

bool is_cjk_ideograph(char32_t c) {
  return is_between(c, 0x4E00, 0x9FFF) || is_between(c, 0x3400, 0x4DBF) || is_between(c, 0x20000, 0x2A6DF) ||
         is_between(c, 0x2A700, 0x2B73F) || is_between(c, 0x2B740, 0x2B81F) || is_between(c, 0x2B920, 0x2CEAF) ||
         is_between(c, 0xF900, 0xFAFF) || is_between(c, 0x2F800, 0x2FA1F);
}

char32_t to_lower(char32_t c) {
  if (c < 0x80) return is_between(c, 'A', 'Z') ? c + 0x20 : c;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::size_t leading_space_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = decode_utf8(text, at);
    if (!is_space(point.value)) break;
    at += point.size_bytes;
  }
  return at;
}

std::size_t trailing_space_bytes(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!is_space(decode_utf8(text, begin).value)) break;
    end = begin;
  }
  return text.size() - end;
}

char32_t code_point_before(std::string_view text, std::size_t end) {
  if (end == 0) return 0xFFFD;
  std::size_t begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return decode_utf8(text, begin).value;
}

}  // namespace sluice
