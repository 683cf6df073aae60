// SPDX-License-Identifier: Apache-2.0
#include "text/lossy_utf8.h"

#include <cstddef>

#include "text/utf8.h"

namespace sluice {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct BadPart {
  std::size_t size_bytes = 1;
  bool may_be_completed = false;
};

// Of bytes that do not decode at `at`: how many could begin a character together.
BadPart measure_bad_part(std::string_view text, std::size_t at) {
  const auto byte_at = [&](std::size_t idx) { return static_cast<unsigned char>(text[idx]); };
  const unsigned char lead = byte_at(at);
  std::size_t size_bytes = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    size_bytes = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    size_bytes = 3;
    if (lead == 0xE0) low = 0xA0;   // overlong
    if (lead == 0xED) high = 0x9F;  // surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    size_bytes = 4;
    if (lead == 0xF0) low = 0x90;   // overlong
    if (lead == 0xF4) high = 0x8F;  // beyond U+10FFFF
  } else {
    return {};
  }
  std::size_t good = 1;
  while (good < size_bytes && at + good < text.size() && byte_at(at + good) >= low && byte_at(at + good) <= high) {
    ++good;
    low = 0x80;
    high = 0xBF;
  }
  return {good, at + good == text.size()};
}

}  // namespace

std::string LossyUtf8::push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  std::size_t at = 0;
  while (at < held_.size()) {
    const CodePoint point = decode_utf8(held_, at);
    if (point.valid) {
      out.append(held_, at, point.size_bytes);
      at += point.size_bytes;
      continue;
    }
    const BadPart bad = measure_bad_part(held_, at);
    if (bad.may_be_completed) break;
    out += kReplacement;
    at += bad.size_bytes;
  }
  held_.erase(0, at);
  return out;
}

std::string LossyUtf8::finish() {
  const bool cut = !held_.empty();
  held_.clear();
  return std::string(cut ? kReplacement : "");
}

}  // namespace sluice
