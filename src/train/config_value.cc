// SPDX-License-Identifier: Apache-2.0
#include "train/config_value.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "format/json_text.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 3> kTrueWords{"true", "yes", "on"};
constexpr std::array<std::string_view, 3> kFalseWords{"false", "no", "off"};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Number number{};
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string describe_range(const CountRange& range) {
  return range.max >= CountRange{}.max ? fmt::format("integer ≥ {}", range.min)
                                       : fmt::format("integer from {} to {}", range.min, range.max);
}

std::string describe_range(const NumberRange& range) {
  std::string from = fmt::format("number {} {}", range.lowest == NumberRange::Bound::kExcluded ? ">" : "≥", range.min);
  if (range.max == NumberRange{}.max) return from;
  return fmt::format("{} and {} {}", from, range.highest == NumberRange::Bound::kExcluded ? "<" : "≤", range.max);
}

bool NumberRange::contains(double value) const {
  return (lowest == Bound::kExcluded ? value > min : value >= min) &&
         (highest == Bound::kExcluded ? value < max : value <= max);
}

bool ConfigValue::is_word(std::string_view word) const {
  return value_.kind == YamlValue::Kind::kScalar && lower_case(value_.text) == word;
}

std::string ConfigValue::place() const {
  const std::string key = on_one_line(key_);
  return line_ == 0 ? fmt::format("command line:{}", key) : fmt::format("{}:{}:{}", file_, line_, key);
}

void ConfigValue::expected(std::string_view what) const {
  refuse(fmt::format("found {}, expected {}", describe_yaml(value_), what));
}

void ConfigValue::refuse(std::string_view sentence) const {
  throw InvalidInput(fmt::format("{}: {}", place(), sentence));
}

std::uint64_t ConfigValue::integer(const CountRange& range) const {
  if (value_.kind == YamlValue::Kind::kScalar) {
    if (const auto number = parse_number<std::uint64_t>(value_.text)) {
      if (*number >= range.min && *number <= range.max) return *number;
    } else if (const auto real = parse_number<double>(value_.text)) {  // 3.0 and 1e4 are whole numbers too
      if (*real >= static_cast<double>(range.min) && *real <= std::min(static_cast<double>(range.max), 1e15) &&
          *real == std::floor(*real)) {
        return static_cast<std::uint64_t>(*real);
      }
    }
  }
  expected("an " + describe_range(range));
}

double ConfigValue::real(const NumberRange& range) const {
  if (value_.kind == YamlValue::Kind::kScalar) {
    const auto number = parse_number<double>(value_.text);
    if (number && range.contains(*number)) return *number;
  }
  expected("a " + describe_range(range));
}

bool ConfigValue::flag() const {
  if (value_.kind == YamlValue::Kind::kScalar) {
    const std::string word = lower_case(value_.text);
    if (std::find(kTrueWords.begin(), kTrueWords.end(), word) != kTrueWords.end()) return true;
    if (std::find(kFalseWords.begin(), kFalseWords.end(), word) != kFalseWords.end()) return false;
  }
  expected("true or false");
}

std::string ConfigValue::text() const {
  if (value_.kind != YamlValue::Kind::kScalar || trimmed(value_.text).empty()) expected("text");
  const bool is_printable = std::all_of(value_.text.begin(), value_.text.end(),
                                        [](char c) { return static_cast<unsigned char>(c) >= 0x20U && c != 0x7F; });
  if (!is_printable) expected("text on one line, without control characters");
  return value_.text;
}

std::uint64_t ConfigValue::bytes() const {
  constexpr std::string_view kForm = "auto, or a size above 0 such as 512MiB or 40GiB";
  if (value_.kind != YamlValue::Kind::kScalar) expected(kForm);
  std::uint64_t size_bytes = 0;
  try {
    size_bytes = parse_bytes(trimmed(value_.text));
  } catch (const InvalidInput&) {
    expected(kForm);
  }
  if (size_bytes == 0) expected(kForm);
  return size_bytes;
}

double ConfigValue::seconds() const {
  constexpr std::string_view kForm = "auto, or a time of a second or more such as 90s, 10min or 2h";
  if (value_.kind != YamlValue::Kind::kScalar) expected(kForm);
  double seconds = 0;
  try {
    seconds = parse_seconds(trimmed(value_.text));
  } catch (const InvalidInput&) {
    expected(kForm);
  }
  if (seconds < 1) expected(kForm);
  return seconds;
}

std::vector<std::string> ConfigValue::texts() const {
  std::vector<std::string> texts;
  if (value_.kind == YamlValue::Kind::kList) {
    for (std::size_t i = 0; i < value_.items.size(); ++i) texts.push_back(at(i).text());
  } else {
    const std::string all = text();
    for (std::string_view rest = all;;) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      texts.emplace_back(trimmed(rest.substr(0, comma)));
      if (texts.back().empty()) expected("a list, or names with commas between them");
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  }
  if (texts.empty()) expected("at least one");
  return texts;
}

std::size_t ConfigValue::choice(std::span<const std::string_view> names) const {
  if (value_.kind == YamlValue::Kind::kScalar) {
    const auto found = std::find(names.begin(), names.end(), lower_case(value_.text));
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  }
  expected(fmt::format("one of {}", fmt::join(names, ", ")));
}

ConfigValue ConfigValue::at(std::size_t item_idx) const {
  return {value_.items[item_idx], file_, fmt::format("{}.{}", key_, item_idx), value_.items[item_idx].line};
}

ConfigValue ConfigValue::at(const YamlValue::Entry& entry) const {
  return {entry.value, file_, fmt::format("{}.{}", key_, entry.key), entry.line};
}

}  // namespace sluice
