// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_operators.h"

#include <cmath>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "text/jinja_filters.h"
#include "text/jinja_format.h"

namespace sluice {
namespace {

[[noreturn]] void refuse(std::string_view sign, const JinjaValue& left, const JinjaValue& right) {
  throw JinjaFailure(
      fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", sign, left.type_name(), right.type_name()));
}

[[noreturn]] void overflow() { throw JinjaFailure("an integer grew beyond 64 bits"); }
[[noreturn]] void divide_by_zero() { throw JinjaFailure("division by zero"); }

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return result;
}

JinjaValue float_arithmetic(std::string_view sign, double left, double right) {
  if (sign == "+") return JinjaValue(left + right);
  if (sign == "-") return JinjaValue(left - right);
  if (sign == "*") return JinjaValue(left * right);
  if (sign == "**") {
    if (left == 0 && right < 0) divide_by_zero();
    const double result = std::pow(left, right);
    if (std::isinf(result) && std::isfinite(left) && std::isfinite(right)) throw JinjaFailure("a power is too large");
    if (std::isnan(result) && !std::isnan(left) && !std::isnan(right)) throw JinjaFailure("a power is not a number");
    return JinjaValue(result);
  }
  if (right == 0) divide_by_zero();
  if (sign == "/") return JinjaValue(left / right);
  double remainder = std::fmod(left, right);
  if (remainder != 0 && (remainder < 0) != (right < 0)) remainder += right;
  if (sign == "%") return JinjaValue(remainder == 0 ? std::copysign(0.0, right) : remainder);
  const double quotient = (left - remainder) / right;
  const double floored = std::floor(quotient);
  return JinjaValue(quotient - floored > 0.5 ? floored + 1 : floored);
}

JinjaValue integer_arithmetic(std::string_view sign, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  if (sign == "+") {
    if (__builtin_add_overflow(left, right, &result)) overflow();
    return JinjaValue(result);
  }
  if (sign == "-") {
    if (__builtin_sub_overflow(left, right, &result)) overflow();
    return JinjaValue(result);
  }
  if (sign == "*") {
    if (__builtin_mul_overflow(left, right, &result)) overflow();
    return JinjaValue(result);
  }
  if (sign == "**") {
    if (right >= 0) return JinjaValue(power(left, right));
    return float_arithmetic(sign, static_cast<double>(left), static_cast<double>(right));
  }
  if (right == 0) divide_by_zero();
  if (sign == "/") return JinjaValue(static_cast<double>(left) / static_cast<double>(right));
  if (left == INT64_MIN && right == -1) {
    if (sign == "//") overflow();
    return JinjaValue(std::int64_t{0});
  }
  std::int64_t quotient = left / right;
  std::int64_t remainder = left % right;
  if (remainder != 0 && (remainder < 0) != (right < 0)) {
    --quotient;
    remainder += right;
  }
  return JinjaValue(sign == "%" ? remainder : quotient);
}

JinjaValue repeat(JinjaInterpreter& interpreter, const JinjaValue& value, std::int64_t times) {
  const auto count = static_cast<std::uint64_t>(times < 0 ? 0 : times);
  const std::size_t size = value.is_text() ? value.as_text().size() : value.as_sequence().items.size();
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(count, std::uint64_t{size} * (value.is_text() ? 1 : sizeof(JinjaValue)), &total)) {
    overflow();
  }
  interpreter.meter().allocate(total);
  if (size == 0 || count == 0) {
    return value.is_text() ? JinjaValue(std::string()) : make_sequence(value.as_sequence().kind, {});
  }
  if (value.is_text()) {
    std::string text;
    text.reserve(total);
    for (std::uint64_t i = 0; i < count; ++i) text += value.as_text();
    return value.is_markup() ? JinjaValue(std::move(text)).marked() : JinjaValue(std::move(text));
  }
  JinjaValues items;
  items.reserve(size * count);
  for (std::uint64_t i = 0; i < count; ++i) {
    items.insert(items.end(), value.as_sequence().items.begin(), value.as_sequence().items.end());
  }
  return make_sequence(value.as_sequence().kind, std::move(items));
}

bool is_list_or_tuple(const JinjaValue& value) {
  return value.is_sequence() && value.as_sequence().kind <= JinjaSequence::Kind::kTuple;
}

JinjaValue add(JinjaInterpreter& interpreter, const JinjaValue& left, const JinjaValue& right) {
  if (left.is_text() && right.is_text() && left.is_markup() != right.is_markup()) {
    return add(interpreter, escaped_markup(interpreter, left), escaped_markup(interpreter, right));
  }
  if (left.is_text() && right.is_text()) {
    interpreter.meter().allocate(left.as_text().size() + right.as_text().size());
    if (left.is_markup()) return JinjaValue(left.as_text() + right.as_text()).marked();
    return JinjaValue(left.as_text() + right.as_text());
  }
  if (left.is_text() || right.is_text()) {
    const JinjaValue& other = left.is_text() ? right : left;
    if (left.is_text()) {
      throw JinjaFailure(fmt::format("can only concatenate str (not \"{}\") to str", other.type_name()));
    }
  }
  if (is_list_or_tuple(left) && is_list_or_tuple(right) && left.as_sequence().kind == right.as_sequence().kind) {
    JinjaValues items = interpreter.iterate(left);
    const JinjaValues more = interpreter.iterate(right);
    items.insert(items.end(), more.begin(), more.end());
    return make_sequence(left.as_sequence().kind, std::move(items));
  }
  refuse("+", left, right);
}

// What is formatted into marked text.
JinjaValue escaped_operands(JinjaInterpreter& interpreter, const JinjaValue& values) {
  if (values.is_text()) return escaped_markup(interpreter, values);
  if (values.is_sequence() && values.as_sequence().kind == JinjaSequence::Kind::kTuple) {
    JinjaValues items;
    for (const JinjaValue& item : values.as_sequence().items) items.push_back(escaped_operands(interpreter, item));
    return JinjaValue::tuple(std::move(items));
  }
  if (!values.is_dict()) return values;
  JinjaPairs pairs;
  for (const auto& [key, item] : values.as_dict().items()) {
    pairs.emplace_back(key, escaped_operands(interpreter, item));
  }
  return JinjaValue::dict(std::move(pairs));
}

}  // namespace

JinjaValue apply_operator(JinjaInterpreter& interpreter, std::string_view sign, const JinjaValue& left,
                          const JinjaValue& right) {
  if (sign == "%" && left.is_markup()) {
    return JinjaValue(format_percent(interpreter, left.as_text(), escaped_operands(interpreter, right))).marked();
  }
  if (sign == "%" && left.is_text()) return JinjaValue(format_percent(interpreter, left.as_text(), right));
  for (const JinjaValue* side : {&left, &right}) {
    if (side->is_undefined()) throw JinjaFailure(side->undefined_message());
  }
  if (left.is_integral() && right.is_integral()) return integer_arithmetic(sign, left.as_int(), right.as_int());
  if (left.is_number() && right.is_number()) return float_arithmetic(sign, left.as_float(), right.as_float());
  if (sign == "+") return add(interpreter, left, right);
  if (sign == "*") {
    if ((left.is_text() || is_list_or_tuple(left)) && right.is_integral()) {
      return repeat(interpreter, left, right.as_int());
    }
    if ((right.is_text() || is_list_or_tuple(right)) && left.is_integral()) {
      return repeat(interpreter, right, left.as_int());
    }
  }
  refuse(sign, left, right);
}

JinjaValue apply_sign(char sign, const JinjaValue& value) {
  if (value.is_undefined()) throw JinjaFailure(value.undefined_message());
  if (value.is_integral()) {
    if (sign == '+') return JinjaValue(value.as_int());
    if (value.as_int() == INT64_MIN) overflow();
    return JinjaValue(-value.as_int());
  }
  if (value.is_float()) return sign == '+' ? value : JinjaValue(-value.as_float());
  throw JinjaFailure(fmt::format("bad operand type for unary {}: '{}'", sign, value.type_name()));
}

bool compare(JinjaInterpreter& interpreter, std::string_view sign, const JinjaValue& left, const JinjaValue& right) {
  if (sign == "in") return interpreter.contains(right, left);
  if (sign == "not in") return !interpreter.contains(right, left);
  JinjaMeter& meter = interpreter.meter();
  if (sign == "==") return equal(left, right, meter);
  if (sign == "!=") return !equal(left, right, meter);
  if (sign == "<") return less(left, right, meter);
  if (sign == ">") return less(right, left, meter);
  const bool ordered = sign == "<=" ? less(left, right, meter) : less(right, left, meter);
  return ordered || equal(left, right, meter);
}

}  // namespace sluice
