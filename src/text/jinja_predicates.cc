// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_predicates.h"

#include <unordered_map>

#include <fmt/format.h>

#include "text/jinja_filters.h"
#include "text/jinja_operators.h"
#include "text/python_text.h"

namespace sluice {
namespace {

using Value = const JinjaValue&;
using ArgumentsRef = const JinjaArguments&;
using Interpreter = JinjaInterpreter&;

const JinjaValue& operand(ArgumentsRef arguments, std::string_view name) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    throw JinjaFailure(fmt::format("the test '{}' takes one argument", name));
  }
  return arguments.positional.front();
}

std::int64_t remainder(Interpreter interpreter, Value value, const JinjaValue& divisor) {
  const JinjaValue rest = apply_operator(interpreter, "%", value, divisor);
  if (!rest.is_number()) return 3;  // of a text that was formatted
  // Whole floats have a remainder too; a fraction is neither even nor odd.
  return rest.is_float() ? (rest.as_float() == 0 ? 0 : rest.as_float() == 1 ? 1 : 2) : rest.as_int();
}

bool is_even(Interpreter interpreter, Value value, ArgumentsRef) {
  return remainder(interpreter, value, JinjaValue(std::int64_t{2})) == 0;
}
bool is_odd(Interpreter interpreter, Value value, ArgumentsRef) {
  return remainder(interpreter, value, JinjaValue(std::int64_t{2})) == 1;
}
bool is_divisible(Interpreter interpreter, Value value, ArgumentsRef arguments) {
  return remainder(interpreter, value, operand(arguments, "divisibleby")) == 0;
}

bool is_iterable(Interpreter, Value value, ArgumentsRef) {
  if (value.is_object()) return dynamic_cast<JinjaGenerator*>(value.as_object()) != nullptr;
  return value.is_text() || value.is_sequence() || value.is_dict() || value.is_undefined();
}

// Anything with a length and items, so text and dicts too.
bool is_sequence(Interpreter, Value value, ArgumentsRef) {
  return value.is_text() || value.is_dict() || value.is_undefined() ||
         (value.is_sequence() && value.as_sequence().subscriptable());
}

bool is_same(Interpreter interpreter, Value value, ArgumentsRef arguments) {
  const JinjaValue& other = operand(arguments, "sameas");
  if (value.type_name() != other.type_name()) return false;
  if (value.is_sequence()) return &value.as_sequence() == &other.as_sequence();
  if (value.is_dict()) return &value.as_dict() == &other.as_dict();
  return equal(value, other, interpreter.meter());
}

bool is_callable(Interpreter, Value value, ArgumentsRef) {
  // Calling an undefined fails, but Python sees that it has a way to be called.
  return value.is_undefined() || (value.is_object() && value.as_object()->callable());
}

template <TextClass kWanted>
bool has_class(Interpreter interpreter, Value value, ArgumentsRef) {
  return is_all(interpreter.text(value), kWanted);
}

struct EqualSign {
  static constexpr std::string_view kSign = "==";
};
struct UnequalSign {
  static constexpr std::string_view kSign = "!=";
};
struct LessSign {
  static constexpr std::string_view kSign = "<";
};
struct LessEqualSign {
  static constexpr std::string_view kSign = "<=";
};
struct GreaterSign {
  static constexpr std::string_view kSign = ">";
};
struct GreaterEqualSign {
  static constexpr std::string_view kSign = ">=";
};
struct InSign {
  static constexpr std::string_view kSign = "in";
};

template <typename Sign>
bool compares(Interpreter interpreter, Value value, ArgumentsRef arguments) {
  return compare(interpreter, Sign::kSign, value, operand(arguments, Sign::kSign));
}

// True for names of filters (and tests) that exist.
bool is_filter(Interpreter, Value value, ArgumentsRef) {
  return value.is_text() && find_jinja_filter(value.as_text()) != nullptr;
}
bool is_test(Interpreter, Value value, ArgumentsRef) {
  return value.is_text() && find_jinja_predicate(value.as_text()) != nullptr;
}

}  // namespace

JinjaPredicate find_jinja_predicate(std::string_view name) {
  static const std::unordered_map<std::string_view, JinjaPredicate> kPredicates = {
      {"defined", [](Interpreter, Value value, ArgumentsRef) { return !value.is_undefined(); }},
      {"undefined", [](Interpreter, Value value, ArgumentsRef) { return value.is_undefined(); }},
      {"none", [](Interpreter, Value value, ArgumentsRef) { return value.is_none(); }},
      {"string", [](Interpreter, Value value, ArgumentsRef) { return value.is_text(); }},
      {"number", [](Interpreter, Value value, ArgumentsRef) { return value.is_number(); }},
      {"integer", [](Interpreter, Value value, ArgumentsRef) { return value.is_int(); }},
      {"float", [](Interpreter, Value value, ArgumentsRef) { return value.is_float(); }},
      {"boolean", [](Interpreter, Value value, ArgumentsRef) { return value.is_bool(); }},
      {"true", [](Interpreter, Value value, ArgumentsRef) { return value.is_bool() && value.as_bool(); }},
      {"false", [](Interpreter, Value value, ArgumentsRef) { return value.is_bool() && !value.as_bool(); }},
      {"mapping", [](Interpreter, Value value, ArgumentsRef) { return value.is_dict(); }},
      {"escaped", [](Interpreter, Value value, ArgumentsRef) { return value.is_markup(); }},
      {"iterable", is_iterable},
      {"sequence", is_sequence},
      {"callable", is_callable},
      {"even", is_even},
      {"odd", is_odd},
      {"divisibleby", is_divisible},
      {"sameas", is_same},
      {"lower", has_class<TextClass::kLower>},
      {"upper", has_class<TextClass::kUpper>},
      {"filter", is_filter},
      {"test", is_test},
      {"in", compares<InSign>},
      {"eq", compares<EqualSign>},
      {"equalto", compares<EqualSign>},
      {"==", compares<EqualSign>},
      {"ne", compares<UnequalSign>},
      {"!=", compares<UnequalSign>},
      {"lt", compares<LessSign>},
      {"lessthan", compares<LessSign>},
      {"<", compares<LessSign>},
      {"le", compares<LessEqualSign>},
      {"<=", compares<LessEqualSign>},
      {"gt", compares<GreaterSign>},
      {"greaterthan", compares<GreaterSign>},
      {">", compares<GreaterSign>},
      {"ge", compares<GreaterEqualSign>},
      {">=", compares<GreaterEqualSign>},
  };
  const auto found = kPredicates.find(name);
  return found == kPredicates.end() ? nullptr : found->second;
}

}  // namespace sluice
