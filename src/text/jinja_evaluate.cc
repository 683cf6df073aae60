// SPDX-License-Identifier: Apache-2.0
// The interpreter's expressions.
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "text/jinja_depth.h"
#include "text/jinja_filters.h"
#include "text/jinja_globals.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_predicates.h"
#include "text/jinja_print.h"

namespace sluice {
namespace {

// Filters that are a method of the text they get, or hand it on.
bool keeps_markup(std::string_view filter) {
  static constexpr std::string_view kFilters[] = {"upper", "lower", "capitalize", "trim", "string", "indent", "center"};
  return std::find(std::begin(kFilters), std::end(kFilters), filter) != std::end(kFilters);
}

}  // namespace

// Whatever is done with a text reads it, so that is charged here, once for all.
JinjaValue JinjaInterpreter::evaluate(const JinjaExpr& expr) {
  JinjaValue value = evaluate_kind(expr);
  if (value.is_text()) meter_.step(value.as_text().size() / 64);
  return value;
}

JinjaValue JinjaInterpreter::evaluate_kind(const JinjaExpr& expr) {
  const JinjaDepth depth(depth_);
  meter_.step();
  line_ = expr.line;
  switch (expr.kind) {
    case JinjaExpr::Kind::kConst:
      return expr.value;
    case JinjaExpr::Kind::kName:
      return evaluate_name(expr);
    case JinjaExpr::Kind::kList:
    case JinjaExpr::Kind::kTuple:
      return evaluate_items(expr);
    case JinjaExpr::Kind::kDict:
      return evaluate_dict(expr);
    case JinjaExpr::Kind::kAttribute:
      return attribute(evaluate(*expr.parts[0]), expr.name);
    case JinjaExpr::Kind::kItem: {
      const JinjaValue object = evaluate(*expr.parts[0]);
      return item(object, evaluate(*expr.parts[1]));
    }
    case JinjaExpr::Kind::kSlice:
      return evaluate_slice(expr);
    case JinjaExpr::Kind::kCall:
      return evaluate_call(expr);
    case JinjaExpr::Kind::kFilter:
      return evaluate_filter(expr, nullptr);
    case JinjaExpr::Kind::kTest:
      return evaluate_test(expr);
    case JinjaExpr::Kind::kNot:
      return JinjaValue(!evaluate(*expr.parts[0]).truth());
    case JinjaExpr::Kind::kNegative:
    case JinjaExpr::Kind::kPositive:
      return apply_sign(expr.kind == JinjaExpr::Kind::kNegative ? '-' : '+', evaluate(*expr.parts[0]));
    case JinjaExpr::Kind::kBinary: {
      const JinjaValue left = evaluate(*expr.parts[0]);
      const JinjaValue right = evaluate(*expr.parts[1]);
      line_ = expr.line;
      return apply_operator(*this, expr.name, left, right);
    }
    case JinjaExpr::Kind::kAnd:
    case JinjaExpr::Kind::kOr: {
      JinjaValue left = evaluate(*expr.parts[0]);
      return left.truth() == (expr.kind == JinjaExpr::Kind::kOr) ? left : evaluate(*expr.parts[1]);
    }
    case JinjaExpr::Kind::kCompare:
      return evaluate_compare(expr);
    case JinjaExpr::Kind::kConcat:
      return evaluate_concat(expr);
    case JinjaExpr::Kind::kConditional:
      return evaluate_conditional(expr);
  }
  return {};
}

JinjaValue JinjaInterpreter::evaluate_name(const JinjaExpr& expr) {
  for (const JinjaScope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    meter_.step(1 + scope->here.size() / 8);
    for (const auto& [name, value] : scope->here) {
      if (name == expr.name) return value;
    }
  }
  if (const JinjaValue* const value = variables_.find(expr.name)) return *value;
  if (const JinjaFunction::Body body = find_jinja_global(expr.name)) {
    return JinjaValue(own(std::make_unique<JinjaFunction>(body)));
  }
  return JinjaValue::undefined(fmt::format("'{}' is undefined", expr.name));
}

JinjaValue JinjaInterpreter::evaluate_items(const JinjaExpr& expr) {
  JinjaValues items;
  meter_.allocate(expr.parts.size() * sizeof(JinjaValue));
  items.reserve(expr.parts.size());
  for (const JinjaExprPtr& part : expr.parts) items.push_back(evaluate(*part));
  return expr.kind == JinjaExpr::Kind::kList ? JinjaValue::list(std::move(items)) : JinjaValue::tuple(std::move(items));
}

JinjaValue JinjaInterpreter::evaluate_dict(const JinjaExpr& expr) {
  JinjaPairs pairs;
  meter_.allocate(expr.parts.size() * 2 * sizeof(JinjaValue));
  for (std::size_t i = 0; i + 1 < expr.parts.size(); i += 2) {
    JinjaValue key = evaluate(*expr.parts[i]);
    charge_key(meter_, key);
    pairs.emplace_back(std::move(key), evaluate(*expr.parts[i + 1]));
  }
  return JinjaValue::dict(std::move(pairs));
}

JinjaValue JinjaInterpreter::evaluate_slice(const JinjaExpr& expr) {
  const JinjaValue object = evaluate(*expr.parts[0]);
  JinjaValue bounds[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (expr.parts[i + 1] != nullptr) bounds[i] = evaluate(*expr.parts[i + 1]);
  }
  return slice(object, bounds[0], bounds[1], bounds[2]);
}

JinjaArguments JinjaInterpreter::evaluate_arguments(const JinjaExpr& expr) {
  JinjaArguments arguments;
  const std::size_t first_named = expr.parts.size() - expr.keywords.size();
  meter_.allocate(expr.parts.size() * sizeof(JinjaValue));
  meter_.step(expr.keywords.size() * expr.keywords.size() / 8);  // each is looked for
  for (std::size_t i = 1; i < first_named; ++i) arguments.positional.push_back(evaluate(*expr.parts[i]));
  for (std::size_t i = 0; i < expr.keywords.size(); ++i) {
    arguments.named.emplace_back(expr.keywords[i], evaluate(*expr.parts[first_named + i]));
  }
  if (expr.star != nullptr) {
    for (JinjaValue& value : iterate(evaluate(*expr.star))) arguments.positional.push_back(std::move(value));
  }
  if (expr.double_star != nullptr) {
    const JinjaValue more = evaluate(*expr.double_star);
    if (!more.is_dict()) throw JinjaFailure("the argument after ** must be a mapping");
    for (const auto& [key, value] : more.as_dict().items()) {
      if (!key.is_text()) throw JinjaFailure("keywords must be strings");
      meter_.allocate(key.as_text().size() + sizeof(JinjaValue));
      meter_.step(arguments.named.size() / 8);
      if (arguments.has(key.as_text())) {
        throw JinjaFailure(fmt::format("got multiple values for keyword argument '{}'", key.as_text()));
      }
      arguments.named.emplace_back(key.as_text(), value);
    }
  }
  line_ = expr.line;
  return arguments;
}

JinjaValue JinjaInterpreter::evaluate_call(const JinjaExpr& expr) {
  const JinjaExpr& callee = *expr.parts[0];
  if (callee.kind != JinjaExpr::Kind::kAttribute) {
    const JinjaValue function = evaluate(callee);
    return call(function, evaluate_arguments(expr));
  }
  // text.upper() and the like are called where they are looked up, without a method object in between.
  const JinjaValue object = evaluate(*callee.parts[0]);
  if (has_jinja_method(object, callee.name)) {
    JinjaArguments arguments = evaluate_arguments(expr);
    return call_jinja_method(*this, object, callee.name, std::move(arguments));
  }
  const JinjaValue function = attribute(object, callee.name);
  return call(function, evaluate_arguments(expr));
}

JinjaValue JinjaInterpreter::call(const JinjaValue& callee, JinjaArguments arguments) {
  const JinjaDepth depth(depth_);
  if (callee.is_undefined()) throw JinjaFailure(callee.undefined_message());
  if (!callee.is_object() || !callee.as_object()->callable()) {
    throw JinjaFailure(fmt::format("'{}' object is not callable", callee.type_name()));
  }
  return callee.as_object()->call(*this, std::move(arguments));
}

JinjaValue JinjaInterpreter::evaluate_filter(const JinjaExpr& expr, const JinjaValue* block) {
  const JinjaExprPtr& part = expr.parts[0];
  const JinjaValue input = part == nullptr    ? *block
                           : block != nullptr ? evaluate_filter(*part, block)
                                              : evaluate(*part);
  return filter(expr.name, input, evaluate_arguments(expr));
}

// A filter or test reads the texts that it gets, for each of many items it may be.
void JinjaInterpreter::charge_reading(const JinjaValue& input, const JinjaArguments& arguments) {
  const auto charge = [this](const JinjaValue& value) {
    meter_.step(value.is_text() ? value.as_text().size() / 64 : 0);
  };
  charge(input);
  for (const JinjaValue& value : arguments.positional) charge(value);
  for (const auto& [name, value] : arguments.named) charge(value);
}

JinjaValue JinjaInterpreter::filter(std::string_view name, const JinjaValue& input, JinjaArguments arguments) {
  const JinjaDepth depth(depth_);
  meter_.step();
  charge_reading(input, arguments);
  const JinjaFilter found = find_jinja_filter(name);
  if (found == nullptr) throw JinjaFailure(fmt::format("No filter named '{}'", name));
  JinjaValue result = found(*this, input, std::move(arguments));
  return input.is_markup() && keeps_markup(name) ? result.marked() : result;
}

JinjaValue JinjaInterpreter::evaluate_test(const JinjaExpr& expr) {
  const JinjaValue input = evaluate(*expr.parts[0]);
  return JinjaValue(test(expr.name, input, evaluate_arguments(expr)));
}

bool JinjaInterpreter::test(std::string_view name, const JinjaValue& input, const JinjaArguments& arguments) {
  meter_.step();
  charge_reading(input, arguments);
  const JinjaPredicate found = find_jinja_predicate(name);
  if (found == nullptr) throw JinjaFailure(fmt::format("No test named '{}'", name));
  return found(*this, input, arguments);
}

JinjaValue JinjaInterpreter::evaluate_compare(const JinjaExpr& expr) {
  JinjaValue left = evaluate(*expr.parts[0]);
  for (std::size_t i = 0; i < expr.keywords.size(); ++i) {
    JinjaValue right = evaluate(*expr.parts[i + 1]);
    line_ = expr.line;
    if (!compare(*this, expr.keywords[i], left, right)) return JinjaValue(false);
    left = std::move(right);
  }
  return JinjaValue(true);
}

JinjaValue JinjaInterpreter::evaluate_concat(const JinjaExpr& expr) {
  std::string joined;
  for (const JinjaExprPtr& part : expr.parts) {
    joined += text(evaluate(*part));
    meter_.check_output(joined.size());
  }
  return JinjaValue(std::move(joined));
}

JinjaValue JinjaInterpreter::evaluate_conditional(const JinjaExpr& expr) {
  if (evaluate(*expr.parts[1]).truth()) return evaluate(*expr.parts[0]);
  if (expr.parts[2] != nullptr) return evaluate(*expr.parts[2]);
  return JinjaValue::undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was defined", expr.line));
}

std::string JinjaInterpreter::text(const JinjaValue& value) { return to_text(value, meter_); }

}  // namespace sluice
