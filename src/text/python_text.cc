// SPDX-License-Identifier: Apache-2.0
#include "text/python_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "text/unicode_class.h"
#include "text/utf8.h"

namespace sluice {
namespace {

utf8proc_category_t category(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

bool is_upper(char32_t point) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(point)) != 0; }
bool is_lower(char32_t point) { return utf8proc_islower(static_cast<utf8proc_int32_t>(point)) != 0; }
bool is_cased(char32_t point) { return is_upper(point) || is_lower(point) || category(point) == UTF8PROC_CATEGORY_LT; }

bool is_letter(char32_t point) {
  const utf8proc_category_t kind = category(point);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

// Letters that become several; the second form is the one that starts a word.
struct Expansion {
  char32_t from;
  const char* upper;
  const char* title;
};
constexpr Expansion kExpansions[] = {
    {0xDF, "SS", "Ss"},     {0x149, "ʼN", "ʼN"},  {0x1F0, "J̌", "J̌"},    {0x390, "Ϊ́", "Ϊ́"},    {0x3B0, "Ϋ́", "Ϋ́"},
    {0x587, "ԵՒ", "Եւ"},    {0x1E96, "H̱", "H̱"},   {0x1E97, "T̈", "T̈"},   {0x1E98, "W̊", "W̊"},   {0x1E99, "Y̊", "Y̊"},
    {0x1E9A, "Aʾ", "Aʾ"},   {0xFB00, "FF", "Ff"}, {0xFB01, "FI", "Fi"}, {0xFB02, "FL", "Fl"}, {0xFB03, "FFI", "Ffi"},
    {0xFB04, "FFL", "Ffl"}, {0xFB05, "ST", "St"}, {0xFB06, "ST", "St"},
};

enum class Case { kUpper, kTitle, kLower };

void append_upper(std::string& text, char32_t point, Case letter) {
  for (const Expansion& expansion : kExpansions) {
    if (expansion.from == point) {
      text += letter == Case::kUpper ? expansion.upper : expansion.title;
      return;
    }
  }
  const auto code = static_cast<utf8proc_int32_t>(point);
  append_utf8(text, static_cast<char32_t>(letter == Case::kUpper ? utf8proc_toupper(code) : utf8proc_totitle(code)));
}

void append_lower(std::string& text, char32_t point) {
  if (point == 0x130) {
    text += "i̇";
  } else {
    append_utf8(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point))));
  }
}

// What a capital sigma does not look at to see whether it ends a word.
bool is_beside_words(char32_t point) {
  const utf8proc_category_t kind = category(point);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_SK || point == '\'' || point == '.' ||
         point == ':' || point == 0xB7 || point == 0x2019;
}

bool begins_with_letter(std::string_view text) {
  for (std::size_t idx = 0; idx < text.size();) {
    const CodePoint point = decode_utf8(text, idx);
    if (!is_beside_words(point.value)) return is_cased(point.value);
    idx += point.size_bytes;
  }
  return false;
}

struct PointInText {
  char32_t value = 0;
  std::size_t at = 0;
  bool in_word = false;  // right behind a letter that has cases
};

// Each code point in the case that `choose` gives for it.
template <typename Choose>
std::string with_case(std::string_view text, Choose choose) {
  std::string result;
  bool in_word = false;
  bool after_letter = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const Case wanted = choose(PointInText{point.value, at, in_word});
    at += point.size_bytes;
    if (wanted != Case::kLower) {
      append_upper(result, point.value, wanted);
    } else if (point.value == 0x3A3 && after_letter && !begins_with_letter(text.substr(at))) {
      append_utf8(result, 0x3C2);  // a capital sigma at the end of a word has a small letter of its own
    } else {
      append_lower(result, point.value);
    }
    in_word = is_cased(point.value);
    if (!is_beside_words(point.value)) after_letter = in_word;
  }
  return result;
}

// Digits that make no numbers, such as superscripts: Numeric_Type=Digit.
bool is_other_digit(char32_t point) {
  struct Range {
    char32_t first;
    char32_t last;
  };
  static constexpr Range kRanges[] = {{0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
                                      {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
                                      {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
                                      {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
                                      {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [point](const Range& range) { return point >= range.first && point <= range.last; });
}

bool is_line_end(char32_t point) {
  return (point >= 0x0A && point <= 0x0D) || (point >= 0x1C && point <= 0x1E) || point == 0x85 || point == 0x2028 ||
         point == 0x2029;
}

// The code point that ends right before `end`.
CodePoint decode_before(std::string_view text, std::size_t end) {
  std::size_t start = end - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  return decode_utf8(text, start);
}

}  // namespace

bool is_python_space(char32_t point) {
  return (point >= 0x09 && point <= 0x0D) || (point >= 0x1C && point <= 0x20) || point == 0x85 || point == 0xA0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
         point == 0x202F || point == 0x205F || point == 0x3000;
}

bool is_python_printable(char32_t point) {
  if (point == ' ') return true;
  switch (category(point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_python_word_character(char32_t point) { return point == '_' || is_letter(point) || is_numeric(point); }

std::string_view strip(std::string_view text, std::optional<std::string_view> chars, TextSides sides) {
  std::unordered_set<char32_t> points;
  for (std::size_t at = 0; chars && at < chars->size();) {
    const CodePoint point = decode_utf8(*chars, at);
    points.insert(point.value);
    at += point.size_bytes;
  }
  const auto goes = [&](const CodePoint& point) {
    return chars ? points.contains(point.value) : is_python_space(point.value);
  };
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (sides != TextSides::kRight && begin < end) {
    const CodePoint point = decode_utf8(text, begin);
    if (!goes(point)) break;
    begin += point.size_bytes;
  }
  while (sides != TextSides::kLeft && begin < end) {
    const CodePoint point = decode_before(text, end);
    if (!goes(point)) break;
    end -= point.size_bytes;
  }
  return text.substr(begin, end - begin);
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator, std::int64_t max_splits,
                                    SplitFrom from) {
  std::vector<std::string_view> parts;
  const auto more = [&] { return max_splits < 0 || static_cast<std::int64_t>(parts.size()) < max_splits; };
  if (from == SplitFrom::kLeft) {
    std::size_t found = 0;
    while (more() && (found = find_text(text, separator)) != std::string_view::npos) {
      parts.push_back(text.substr(0, found));
      text.remove_prefix(found + separator.size());
    }
    parts.push_back(text);
    return parts;
  }
  // From the left of what is turned around: looking from the right takes the product of both lengths.
  const std::string turned(text.rbegin(), text.rend());
  const std::string wanted(separator.rbegin(), separator.rend());
  std::string_view rest = turned;
  std::size_t found = 0;
  while (more() && (found = find_text(rest, wanted)) != std::string_view::npos) {
    parts.push_back(text.substr(text.size() - found));
    text.remove_suffix(found + wanted.size());
    rest.remove_prefix(found + wanted.size());
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_whitespace(std::string_view text, std::int64_t max_splits, SplitFrom from) {
  const bool left = from == SplitFrom::kLeft;
  const TextSides near = left ? TextSides::kLeft : TextSides::kRight;
  std::vector<std::string_view> parts;
  text = strip(text, std::nullopt, near);
  while (!text.empty()) {
    if (max_splits >= 0 && static_cast<std::int64_t>(parts.size()) == max_splits) {
      parts.push_back(text);
      break;
    }
    std::size_t taken = 0;
    while (taken < text.size()) {
      const CodePoint point = left ? decode_utf8(text, taken) : decode_before(text, text.size() - taken);
      if (is_python_space(point.value)) break;
      taken += point.size_bytes;
    }
    parts.push_back(left ? text.substr(0, taken) : text.substr(text.size() - taken));
    text = left ? text.substr(taken) : text.substr(0, text.size() - taken);
    text = strip(text, std::nullopt, near);
  }
  if (!left) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::size_t most_lines(std::string_view text) {
  // Of U+0085, U+2028 and U+2029 the first byte.
  constexpr std::string_view kBegins = "\n\v\f\r\x1C\x1D\x1E\xC2\xE2";
  return 1 + static_cast<std::size_t>(std::count_if(text.begin(), text.end(),
                                                    [&](char c) { return kBegins.find(c) != std::string_view::npos; }));
}

std::vector<std::string_view> split_lines(std::string_view text, LineEnds ends) {
  std::vector<std::string_view> lines;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (!is_line_end(point.value)) {
      at += point.size_bytes;
      continue;
    }
    std::size_t next = at + point.size_bytes;
    if (point.value == '\r' && next < text.size() && text[next] == '\n') ++next;
    lines.push_back(text.substr(start, (ends == LineEnds::kKeep ? next : at) - start));
    at = start = next;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string to_upper(std::string_view text) {
  return with_case(text, [](const PointInText&) { return Case::kUpper; });
}

std::string to_lower(std::string_view text) {
  return with_case(text, [](const PointInText&) { return Case::kLower; });
}

std::string to_casefolded(std::string_view text) {
  std::string folded;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    std::array<utf8proc_int32_t, 8> parts{};  // U+0390 has three
    int last_class = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(point.value), parts.data(),
                                                           parts.size(), UTF8PROC_CASEFOLD, &last_class);
    for (utf8proc_ssize_t i = 0; i < count; ++i) append_utf8(folded, static_cast<char32_t>(parts[i]));
    at += point.size_bytes;
  }
  return folded;
}

std::string to_capitalized(std::string_view text) {
  return with_case(text, [](const PointInText& point) { return point.at == 0 ? Case::kTitle : Case::kLower; });
}

std::string to_title(std::string_view text) {
  return with_case(text, [](const PointInText& point) { return point.in_word ? Case::kLower : Case::kTitle; });
}

std::string to_swapped_case(std::string_view text) {
  return with_case(text, [](const PointInText& point) { return is_upper(point.value) ? Case::kLower : Case::kUpper; });
}

bool is_all(std::string_view text, TextClass wanted) {
  if (wanted == TextClass::kUpper || wanted == TextClass::kLower) {
    bool any = false;
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint point = decode_utf8(text, at);
      const bool fits = wanted == TextClass::kUpper ? is_upper(point.value) : is_lower(point.value);
      if (is_cased(point.value) && !fits) return false;
      any = any || fits;
      at += point.size_bytes;
    }
    return any;
  }
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const bool decimal = category(point.value) == UTF8PROC_CATEGORY_ND;
    const bool numeric = is_numeric(point.value);
    const bool letter = is_letter(point.value);
    const bool fits = wanted == TextClass::kSpace     ? is_python_space(point.value)
                      : wanted == TextClass::kAlpha   ? letter
                      : wanted == TextClass::kDecimal ? decimal
                      : wanted == TextClass::kDigit   ? decimal || is_other_digit(point.value)
                      : wanted == TextClass::kNumeric ? numeric
                                                      : letter || numeric;
    if (!fits) return false;
    at += point.size_bytes;
  }
  return !text.empty();
}

std::size_t num_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

std::vector<std::size_t> code_point_offsets(std::string_view text) {
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < text.size(); at += decode_utf8(text, at).size_bytes) offsets.push_back(at);
  offsets.push_back(text.size());
  return offsets;
}

// As long as this, what is looked for may be compared at every place.
constexpr std::size_t kShort = 64;

std::size_t find_text(std::string_view text, std::string_view wanted) {
  if (wanted.size() <= kShort) return text.find(wanted);
  const void* const found = ::memmem(text.data(), text.size(), wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t find_last_text(std::string_view text, std::string_view wanted) {
  if (wanted.size() <= kShort) return text.rfind(wanted);
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::size_t found = find_text(reversed_text, std::string(wanted.rbegin(), wanted.rend()));
  return found == std::string_view::npos ? found : text.size() - found - wanted.size();
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to, std::int64_t max_count) {
  std::string result;
  std::int64_t num_done = 0;
  const auto more = [&] { return max_count < 0 || num_done < max_count; };
  if (from.empty()) {
    // Before every code point and at the end.
    for (std::size_t at = 0;; ++num_done) {
      if (more()) result += to;
      if (at == text.size()) return result;
      const std::size_t size_bytes = decode_utf8(text, at).size_bytes;
      result += text.substr(at, size_bytes);
      at += size_bytes;
    }
  }
  for (; more(); ++num_done) {
    const std::size_t found = find_text(text, from);
    if (found == std::string_view::npos) break;
    result += text.substr(0, found);
    result += to;
    text.remove_prefix(found + from.size());
  }
  result += text;
  return result;
}

}  // namespace sluice
