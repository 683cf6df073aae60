// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "text/jinja_print.h"
#include "text/python_text.h"
#include "text/utf8.h"

namespace sluice {
namespace {

// Wider fields and longer fractions than any template needs.
constexpr int kMaxWidth = 1000;

struct FieldSpec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '-';    // or + or a blank
  bool alternate = false;
  bool comma = false;
  int width = 0;
  int precision = -1;
  char type = '\0';
};

int read_number(std::string_view text, std::size_t& at) {
  int number = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = number * 10 + (text[at++] - '0');
    if (number > kMaxWidth) throw JinjaFailure(fmt::format("a format is wider than {}", kMaxWidth));
  }
  return number;
}

std::string with_commas(std::string digits) {
  std::size_t end = digits.find_first_not_of("0123456789");
  if (end == std::string::npos) end = digits.size();
  for (std::size_t at = end; at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string padded(const FieldSpec& spec, std::string_view sign, std::string_view body, char default_align) {
  const std::size_t size = num_code_points(sign) + num_code_points(body);
  const std::size_t missing = static_cast<std::size_t>(spec.width) > size ? spec.width - size : 0;
  const char align = spec.align == '\0' ? default_align : spec.align;
  const std::size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string out;
  if (align == '=') out += sign;
  for (std::size_t i = 0; i < left; ++i) out += spec.fill;
  if (align != '=') out += sign;
  out += body;
  for (std::size_t i = left; i < missing; ++i) out += spec.fill;
  return out;
}

std::string sign_text(bool negative, char wish) {
  if (negative) return "-";
  return wish == '-' ? std::string() : std::string(1, wish);
}

std::string integer_digits(std::uint64_t value, char type) {
  switch (type) {
    case 'x':
      return fmt::format("{:x}", value);
    case 'X':
      return fmt::format("{:X}", value);
    case 'o':
      return fmt::format("{:o}", value);
    case 'b':
      return fmt::format("{:b}", value);
    default:
      return std::to_string(value);
  }
}

// "0x" and the like, which stand before what a number is filled up with.
std::string base_prefix(const FieldSpec& spec) {
  const bool has_one =
      spec.alternate && spec.type != '\0' && std::string_view("xXob").find(spec.type) != std::string_view::npos;
  return has_one ? std::string("0") + spec.type : std::string();
}

std::string float_digits(double value, char type, int precision) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return "inf";
  const int digits = precision < 0 ? 6 : precision;
  switch (type) {
    case 'e':
      return fmt::format("{:.{}e}", value, digits);
    case 'E':
      return fmt::format("{:.{}E}", value, digits);
    case 'g':
      return fmt::format("{:.{}g}", value, digits);
    case 'G':
      return fmt::format("{:.{}G}", value, digits);
    case '%':
      return fmt::format("{:.{}f}%", value * 100, digits);
    default:
      return fmt::format("{:.{}f}", value, digits);
  }
}

std::string format_number(const FieldSpec& spec, const JinjaValue& value) {
  const bool as_float = value.is_float() || std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  if (!as_float || (spec.type != '\0' && std::string_view("dxXobi").find(spec.type) != std::string_view::npos)) {
    if (value.is_float()) throw JinjaFailure(fmt::format("format code '{}' needs an integer", spec.type));
    const std::int64_t number = value.as_int();
    const std::uint64_t magnitude =
        number < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
    std::string digits = integer_digits(magnitude, spec.type);
    if (spec.comma) digits = with_commas(std::move(digits));
    return padded(spec, sign_text(number < 0, spec.sign) + base_prefix(spec), digits, '>');
  }
  const double number = value.as_float();
  const bool negative = std::signbit(number) && !std::isnan(number);
  std::string digits;
  if (spec.type == '\0' && spec.precision < 0) {
    digits = python_float(std::abs(number));
  } else if (spec.type == '\0') {
    digits = float_digits(std::abs(number), 'g', std::max(spec.precision, 1));
    if (digits.find_first_of(".en") == std::string::npos) digits += ".0";
  } else {
    digits = float_digits(std::abs(number), spec.type, spec.precision);
  }
  if (spec.comma) digits = with_commas(std::move(digits));
  return padded(spec, sign_text(negative, spec.sign), digits, '>');
}

std::string format_text(const FieldSpec& spec, std::string_view text) {
  if (spec.precision >= 0) {
    std::size_t end = 0;
    for (int count = 0; count < spec.precision && end < text.size(); ++count) end += decode_utf8(text, end).size_bytes;
    text = text.substr(0, end);
  }
  return padded(spec, "", text, '<');
}

FieldSpec parse_brace_spec(std::string_view text) {
  FieldSpec spec;
  std::size_t at = 0;
  const auto is_align = [](char letter) { return letter == '<' || letter == '>' || letter == '^' || letter == '='; };
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  if (!text.empty()) {
    const std::size_t first_bytes = decode_utf8(text, 0).size_bytes;
    if (first_bytes < text.size() && is_align(text[first_bytes])) {
      spec.fill = std::string(text.substr(0, first_bytes));
      spec.align = text[first_bytes];
      at = first_bytes + 1;
    } else if (is_align(text[0])) {
      spec.align = text[at++];
    }
  }
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[at++];
  if (peek() == '#') {
    spec.alternate = true;
    ++at;
  }
  if (peek() == '0') {
    ++at;
    if (spec.align == '\0') {
      spec.fill = "0";
      spec.align = '=';
    }
  }
  spec.width = read_number(text, at);
  if (peek() == ',') {
    spec.comma = true;
    ++at;
  }
  if (peek() == '.') {
    ++at;
    spec.precision = read_number(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size() || std::string_view("\0sdxXobeEfFgG%", 14).find(spec.type) == std::string_view::npos) {
    throw JinjaFailure(fmt::format("'{}' is no format that is supported", text));
  }
  return spec;
}

std::string format_one(JinjaInterpreter& interpreter, const JinjaValue& value, std::string_view spec_text) {
  if (spec_text.empty()) return interpreter.text(value);
  const FieldSpec spec = parse_brace_spec(spec_text);
  if (value.is_number() && spec.type != 's') {
    return format_number(spec, value);
  }
  if (spec.type != '\0' && spec.type != 's') {
    throw JinjaFailure(fmt::format("format code '{}' does not fit '{}'", spec.type, value.type_name()));
  }
  return format_text(spec, interpreter.text(value));
}

// "0.name[key]" of a replacement field.
JinjaValue look_up_field(JinjaInterpreter& interpreter, std::string_view field, const JinjaArguments& arguments,
                         std::size_t& next_idx) {
  const std::size_t name_end = std::min(field.find_first_of(".["), field.size());
  const std::string_view name = field.substr(0, name_end);
  JinjaValue value;
  if (name.empty() || name.find_first_not_of("0123456789") == std::string_view::npos) {
    std::size_t at = 0;
    const std::size_t idx = name.empty() ? next_idx++ : static_cast<std::size_t>(read_number(name, at));
    if (idx >= arguments.positional.size()) {
      throw JinjaFailure(fmt::format("Replacement index {} out of range for positional args tuple", idx));
    }
    value = arguments.positional[idx];
  } else {
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& argument) { return argument.first == name; });
    if (found == arguments.named.end()) throw JinjaFailure(fmt::format("format has no argument '{}'", name));
    value = found->second;
  }
  for (std::size_t at = name_end; at < field.size();) {
    const bool by_key = field[at] == '[';
    const std::size_t end = by_key ? field.find(']', at) : std::min(field.find_first_of(".[", at + 1), field.size());
    if (end == std::string_view::npos) throw JinjaFailure("a [ in a format is not closed");
    const std::string key(field.substr(at + 1, end - at - 1));
    std::size_t read = 0;
    const bool number = by_key && !key.empty() && key.find_first_not_of("0123456789") == std::string::npos;
    value = number ? interpreter.item(value, JinjaValue(std::int64_t{read_number(key, read)}))
                   : interpreter.attribute(value, key);
    at = by_key ? end + 1 : end;
  }
  return value;
}

}  // namespace

std::string format_braces(JinjaInterpreter& interpreter, std::string_view format, const JinjaArguments& arguments) {
  std::string out;
  std::size_t next_idx = 0;
  for (std::size_t at = 0; at < format.size();) {
    const char letter = format[at];
    if (letter != '{' && letter != '}') {
      out += letter;
      ++at;
      continue;
    }
    if (at + 1 < format.size() && format[at + 1] == letter) {
      out += letter;
      at += 2;
      continue;
    }
    const std::size_t end = letter == '{' ? format.find('}', at) : std::string_view::npos;
    if (end == std::string_view::npos)
      throw JinjaFailure(fmt::format("Single '{}' encountered in format string", letter));
    std::string_view field = format.substr(at + 1, end - at - 1);
    if (field.find('{') != std::string_view::npos)
      throw JinjaFailure("fields inside a format's fields are not supported");
    const std::size_t colon = field.find(':');
    const std::string_view spec = colon == std::string_view::npos ? std::string_view() : field.substr(colon + 1);
    field = field.substr(0, colon);
    char conversion = '\0';
    if (field.size() >= 2 && field[field.size() - 2] == '!') {
      conversion = field.back();
      field.remove_suffix(2);
    }
    JinjaValue value = look_up_field(interpreter, field, arguments, next_idx);
    if (conversion == 'r') value = JinjaValue(to_repr(value, interpreter.meter()));
    if (conversion == 's') value = JinjaValue(interpreter.text(value));
    const std::string one = format_one(interpreter, value, spec);
    interpreter.meter().allocate(one.size());
    out += one;
    at = end + 1;
  }
  return out;
}

std::string format_percent(JinjaInterpreter& interpreter, std::string_view format, const JinjaValue& values) {
  const bool is_tuple = values.is_sequence() && values.as_sequence().kind == JinjaSequence::Kind::kTuple;
  const JinjaValues list = is_tuple ? values.as_sequence().items : JinjaValues{values};
  std::size_t next_idx = 0;
  bool by_name = false;
  std::string out;
  for (std::size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      out += format[at++];
      continue;
    }
    ++at;
    const auto peek = [&] { return at < format.size() ? format[at] : '\0'; };
    if (peek() == '%') {
      out += '%';
      ++at;
      continue;
    }
    std::optional<JinjaValue> named;
    if (peek() == '(') {
      const std::size_t end = format.find(')', at);
      if (end == std::string_view::npos || !values.is_dict()) throw JinjaFailure("format requires a mapping");
      const std::string key(format.substr(at + 1, end - at - 1));
      const JinjaValue* const found = values.as_dict().find(std::string_view(key));
      if (found == nullptr) throw JinjaFailure(fmt::format("format has no value for '{}'", key));
      named = *found;
      by_name = true;
      at = end + 1;
    }
    FieldSpec spec;
    spec.align = '>';
    for (; peek() != '\0' && std::string_view("-+ 0#").find(peek()) != std::string_view::npos; ++at) {
      if (peek() == '-') spec.align = '<';
      if (peek() == '+' || (peek() == ' ' && spec.sign != '+')) spec.sign = peek();
      if (peek() == '#') spec.alternate = true;
      if (peek() == '0') spec.fill = "0";
    }
    spec.width = read_number(format, at);
    if (peek() == '.') {
      ++at;
      spec.precision = read_number(format, at);
    }
    spec.type = peek();
    ++at;
    if (spec.type == '\0') throw JinjaFailure("incomplete format");
    if (!named && next_idx >= list.size()) throw JinjaFailure("not enough arguments for format string");
    const JinjaValue value = named ? *named : list[next_idx++];
    std::string one;
    if (spec.type == 's' || spec.type == 'r') {
      spec.fill = " ";
      one = format_text(spec, spec.type == 's' ? interpreter.text(value) : to_repr(value, interpreter.meter()));
    } else if (std::string_view("diuxXoeEfFgG").find(spec.type) != std::string_view::npos) {
      if (!value.is_number()) {
        throw JinjaFailure(fmt::format("%{} format: a number is required, not {}", spec.type, value.type_name()));
      }
      const bool integer = std::string_view("diuxXo").find(spec.type) != std::string_view::npos;
      JinjaValue number = value;
      if (integer && value.is_float()) {
        if (!(std::abs(value.as_float()) < 9.2e18)) throw JinjaFailure("a float is too large for an integer format");
        number = JinjaValue(static_cast<std::int64_t>(value.as_float()));
      }
      if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
      if (spec.fill == "0") spec.align = spec.align == '<' ? '<' : '=';
      if (spec.align == '<') spec.fill = " ";
      one = format_number(spec, number);
    } else {
      throw JinjaFailure(fmt::format("unsupported format character '{}'", spec.type));
    }
    interpreter.meter().allocate(one.size());
    out += one;
  }
  const bool is_mapping =
      values.is_dict() || (values.is_sequence() && !is_tuple && values.as_sequence().subscriptable());
  if (!by_name && !is_mapping && next_idx < list.size()) {
    throw JinjaFailure("not all arguments converted during string formatting");
  }
  return out;
}

}  // namespace sluice
