// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "text/jinja_arguments.h"
#include "text/jinja_filters.h"
#include "text/python_text.h"

namespace sluice {
namespace {

// Digits as int() and float() take them: blanks around, single underscores between. Nothing where they are not.
std::optional<std::string> plain_digits(std::string_view text) {
  text = strip(text, std::nullopt, TextSides::kBoth);
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
      continue;
    }
    const auto is_alnum = [](char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0; };
    if (i == 0 || i + 1 == text.size() || !is_alnum(text[i - 1]) || !is_alnum(text[i + 1])) return std::nullopt;
  }
  return digits;
}

std::optional<std::int64_t> parse_integer(std::string_view text, int base) {
  const std::optional<std::string> digits = plain_digits(text);
  if (!digits || digits->empty()) return std::nullopt;
  std::string_view rest = *digits;
  const bool negative = rest.front() == '-';
  if (negative || rest.front() == '+') rest.remove_prefix(1);
  if (rest.size() > 2 && rest[0] == '0') {
    const char mark = static_cast<char>(rest[1] | 0x20);
    const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == marked || base == 0)) {
      rest.remove_prefix(2);
      base = marked;
    }
  }
  if (base == 0) base = 10;
  std::uint64_t magnitude = 0;
  const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), magnitude, base);
  if (rest.empty() || result.ptr != rest.data() + rest.size()) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range || magnitude > static_cast<std::uint64_t>(INT64_MAX)) {
    throw JinjaFailure(fmt::format("the integer {} is beyond 64 bits", text));
  }
  const auto value = static_cast<std::int64_t>(magnitude);
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  const std::optional<std::string> digits = plain_digits(text);
  if (!digits || digits->empty()) return std::nullopt;
  const std::string lower = to_lower(*digits);
  const std::string_view unsigned_text = std::string_view(lower).substr(lower[0] == '-' || lower[0] == '+' ? 1 : 0);
  const bool word = unsigned_text == "inf" || unsigned_text == "infinity" || unsigned_text == "nan";
  if (!word && (unsigned_text.empty() || unsigned_text.find_first_not_of("0123456789.e+-") != std::string_view::npos)) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double value = std::strtod(lower.c_str(), &end);
  return end == lower.c_str() + lower.size() ? std::optional<double>(value) : std::nullopt;
}

std::optional<std::int64_t> truncated(double value) {
  if (std::isnan(value) || std::isinf(value)) return std::nullopt;
  if (std::abs(value) >= 9.2e18) throw JinjaFailure("a float is too large for a 64-bit integer");
  return static_cast<std::int64_t>(value);
}

JinjaValue int_filter(JinjaInterpreter&, const JinjaValue& input, JinjaArguments arguments) {
  const BoundJinjaArguments bound("int", 0, {"default", "base"}, std::move(arguments));
  JinjaValue otherwise = bound.value(0, JinjaValue(std::int64_t{0}));
  if (input.is_undefined()) throw JinjaFailure(input.undefined_message());
  if (input.is_integral()) return JinjaValue(input.as_int());
  std::optional<std::int64_t> value;
  if (input.is_float()) {
    value = truncated(input.as_float());
  } else if (input.is_text()) {
    const std::int64_t base = bound.integer(1, 10);
    if (base != 0 && (base < 2 || base > 36)) return otherwise;
    value = parse_integer(input.as_text(), static_cast<int>(base));
    if (!value) {
      if (const std::optional<double> number = parse_float(input.as_text())) value = truncated(*number);
    }
  }
  return value ? JinjaValue(*value) : otherwise;
}

JinjaValue float_filter(JinjaInterpreter&, const JinjaValue& input, JinjaArguments arguments) {
  const BoundJinjaArguments bound("float", 0, {"default"}, std::move(arguments));
  if (input.is_undefined()) throw JinjaFailure(input.undefined_message());
  if (input.is_number()) return JinjaValue(input.as_float());
  if (input.is_text()) {
    if (const std::optional<double> value = parse_float(input.as_text())) return JinjaValue(*value);
  }
  return bound.value(0, JinjaValue(0.0));
}

JinjaValue abs_filter(JinjaInterpreter&, const JinjaValue& input, JinjaArguments arguments) {
  const BoundJinjaArguments none("abs", 0, {}, std::move(arguments));
  if (input.is_float()) return JinjaValue(std::abs(input.as_float()));
  if (!input.is_integral()) throw JinjaFailure(fmt::format("bad operand type for abs(): '{}'", input.type_name()));
  if (input.as_int() == INT64_MIN) throw JinjaFailure("an integer grew beyond 64 bits");
  return JinjaValue(std::abs(input.as_int()));
}

// To the nearest, halves to even, at the decimal place asked for: printing does exactly that.
double rounded(double value, std::int64_t places) {
  if (!std::isfinite(value) || places > 300) return value;
  if (places >= 0) return std::strtod(fmt::format("{:.{}f}", value, places).c_str(), nullptr);
  if (places < -300) return std::copysign(0.0, value);
  const double unit = std::pow(10.0, static_cast<double>(-places));
  return std::nearbyint(value / unit) * unit;
}

std::int64_t rounded(std::int64_t value, std::int64_t places) {
  if (places >= 0) return value;
  if (places < -18) return 0;
  std::int64_t unit = 1;
  for (std::int64_t i = 0; i < -places; ++i) unit *= 10;
  std::int64_t rest = value % unit;
  if (rest < 0) rest += unit;
  const std::int64_t half = unit / 2;
  std::int64_t result = 0;
  if (__builtin_sub_overflow(value, rest, &result)) throw JinjaFailure("an integer grew beyond 64 bits");
  const bool up = rest > half || (rest == half && ((result / unit) & 1) != 0);
  if (up && __builtin_add_overflow(result, unit, &result)) throw JinjaFailure("an integer grew beyond 64 bits");
  return result;
}

JinjaValue round_filter(JinjaInterpreter&, const JinjaValue& input, JinjaArguments arguments) {
  const BoundJinjaArguments bound("round", 0, {"precision", "method"}, std::move(arguments));
  const std::int64_t places = bound.integer(0, 0);
  const std::string method = bound.text(1, "common");
  if (input.is_undefined()) throw JinjaFailure(input.undefined_message());
  if (!input.is_number()) throw JinjaFailure(fmt::format("type {} doesn't define round", input.type_name()));
  if (method == "common") {
    return input.is_float() ? JinjaValue(rounded(input.as_float(), places))
                            : JinjaValue(rounded(input.as_int(), places));
  }
  if (method != "ceil" && method != "floor") throw JinjaFailure("method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(places));
  const double scaled = input.as_float() * unit;
  if (!std::isfinite(scaled)) throw JinjaFailure("round: the number is too large");
  return JinjaValue((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

}  // namespace

JinjaFilter find_jinja_number_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, JinjaFilter> kFilters = {
      {"int", int_filter},
      {"float", float_filter},
      {"abs", abs_filter},
      {"round", round_filter},
  };
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

}  // namespace sluice
