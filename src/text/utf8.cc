// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

namespace sluice {

CodePoint decode_utf8(std::string_view text, std::size_t at) {
  static constexpr CodePoint kInvalid{0xFFFD, 1, false};
  const auto byte_at = [&](std::size_t idx) { return static_cast<unsigned char>(text[idx]); };
  const unsigned char lead = byte_at(at);
  if (lead < 0x80) return {lead, 1, true};
  std::size_t size_bytes = 0;
  char32_t value = 0;
  char32_t least = 0;
  if ((lead & 0xE0) == 0xC0) {
    size_bytes = 2, value = lead & 0x1F, least = 0x80;
  } else if ((lead & 0xF0) == 0xE0) {
    size_bytes = 3, value = lead & 0x0F, least = 0x800;
  } else if ((lead & 0xF8) == 0xF0) {
    size_bytes = 4, value = lead & 0x07, least = 0x10000;
  } else {
    return kInvalid;
  }
  if (text.size() - at < size_bytes) return kInvalid;
  for (std::size_t idx = 1; idx < size_bytes; ++idx) {
    if ((byte_at(at + idx) & 0xC0) != 0x80) return kInvalid;
    value = (value << 6) | (byte_at(at + idx) & 0x3F);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < least || value > 0x10FFFF || surrogate) return kInvalid;
  return {value, size_bytes, true};
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid) return false;
    at += point.size_bytes;
  }
  return true;
}

}  // namespace sluice
