// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_expression_parser.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "text/jinja_filters.h"
#include "text/jinja_predicates.h"

namespace sluice {
namespace {

// Real templates stay below 20. The parser and the interpreter recurse this deep.
constexpr int kMaxLevel = 100;
constexpr int kMaxExprDepth = 200;

std::string describe(const JinjaToken& token) {
  switch (token.kind) {
    case JinjaToken::Kind::kEnd:
      return "end of template";
    case JinjaToken::Kind::kBlockEnd:
      return "end of statement block";
    case JinjaToken::Kind::kVariableEnd:
      return "end of print statement";
    case JinjaToken::Kind::kString:
      return "string";
    default:
      return token.text;
  }
}

template <typename... Parts>
std::vector<JinjaExprPtr> parts_of(Parts... parts) {
  std::vector<JinjaExprPtr> list;
  (list.push_back(std::move(parts)), ...);
  return list;
}

}  // namespace

bool JinjaExpressionParser::mentions_since(std::size_t position, std::string_view name) const {
  return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(position),
                     tokens_.begin() + static_cast<std::ptrdiff_t>(at_),
                     [&](const JinjaToken& token) { return token.kind == Token::kName && token.text == name; });
}

void JinjaExpressionParser::fail(std::string message) const {
  throw JinjaSyntaxError{std::move(message), current().line};
}

JinjaExpressionParser::Level::Level(JinjaExpressionParser& parser) : parser_(parser) {
  if (parser.level_ >= kMaxLevel) parser.fail(fmt::format("it is nested deeper than {} levels", kMaxLevel));
  ++parser.level_;
}

bool JinjaExpressionParser::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  next();
  return true;
}

bool JinjaExpressionParser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  next();
  return true;
}

void JinjaExpressionParser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail(fmt::format("expected '{}', got '{}'", text, describe(current())));
}

std::string JinjaExpressionParser::expect_name() {
  if (current().kind != Token::kName) fail(fmt::format("expected a name, got '{}'", describe(current())));
  return next().text;
}

JinjaExprPtr JinjaExpressionParser::checked(JinjaExprPtr expr) const {
  int deepest = 0;
  for (const JinjaExprPtr& part : expr->parts) {
    if (part != nullptr) deepest = std::max(deepest, part->depth);
  }
  for (const JinjaExpr* part : {expr->star.get(), expr->double_star.get()}) {
    if (part != nullptr) deepest = std::max(deepest, part->depth);
  }
  if (deepest >= kMaxExprDepth) fail(fmt::format("an expression is nested deeper than {} levels", kMaxExprDepth));
  expr->depth = deepest + 1;
  return expr;
}

JinjaExprPtr JinjaExpressionParser::make(Kind kind, int line, std::vector<JinjaExprPtr> parts) {
  auto expr = std::make_unique<JinjaExpr>();
  expr->kind = kind;
  expr->line = line;
  expr->parts = std::move(parts);
  return checked(std::move(expr));
}

JinjaExprPtr JinjaExpressionParser::parse_expression(Conditionals conditionals) {
  const Level level(*this);
  if (conditionals == Conditionals::kLeft) return parse_or();
  const int line = current().line;
  const std::size_t num_unknown = unknown_.size();
  JinjaExprPtr expr = parse_or();
  if (!is_name("if")) return expr;
  while (skip_name("if")) {
    JinjaExprPtr condition = parse_or();
    JinjaExprPtr otherwise = skip_name("else") ? parse_expression() : nullptr;
    expr = make(Kind::kConditional, line, parts_of(std::move(expr), std::move(condition), std::move(otherwise)));
  }
  unknown_.resize(num_unknown);
  return expr;
}

JinjaExprPtr JinjaExpressionParser::parse_or() {
  JinjaExprPtr left = parse_and();
  while (is_name("or")) {
    const int line = next().line;
    left = make(Kind::kOr, line, parts_of(std::move(left), parse_and()));
  }
  return left;
}

JinjaExprPtr JinjaExpressionParser::parse_and() {
  JinjaExprPtr left = parse_not();
  while (is_name("and")) {
    const int line = next().line;
    left = make(Kind::kAnd, line, parts_of(std::move(left), parse_not()));
  }
  return left;
}

JinjaExprPtr JinjaExpressionParser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Level level(*this);
  const int line = next().line;
  return make(Kind::kNot, line, parts_of(parse_not()));
}

JinjaExprPtr JinjaExpressionParser::parse_compare() {
  const int line = current().line;
  std::vector<JinjaExprPtr> parts = parts_of(parse_sum());
  std::vector<std::string> operators;
  while (true) {
    static constexpr std::string_view kComparisons[] = {"==", "!=", "<", "<=", ">", ">="};
    if (current().kind == Token::kOperator &&
        std::find(std::begin(kComparisons), std::end(kComparisons), current().text) != std::end(kComparisons)) {
      operators.push_back(next().text);
    } else if (skip_name("in")) {
      operators.emplace_back("in");
    } else if (is_name("not") && ahead().kind == Token::kName && ahead().text == "in") {
      next();
      next();
      operators.emplace_back("not in");
    } else {
      break;
    }
    parts.push_back(parse_sum());
  }
  if (operators.empty()) return std::move(parts.front());
  JinjaExprPtr expr = make(Kind::kCompare, line, std::move(parts));
  expr->keywords = std::move(operators);
  return expr;
}

JinjaExprPtr JinjaExpressionParser::parse_sum() {
  JinjaExprPtr left = parse_concat();
  while (is_operator("+") || is_operator("-")) {
    const JinjaToken sign = next();
    left = make(Kind::kBinary, sign.line, parts_of(std::move(left), parse_concat()));
    left->name = sign.text;
  }
  return left;
}

JinjaExprPtr JinjaExpressionParser::parse_concat() {
  const int line = current().line;
  std::vector<JinjaExprPtr> parts = parts_of(parse_product());
  while (skip_operator("~")) parts.push_back(parse_product());
  if (parts.size() == 1) return std::move(parts.front());
  return make(Kind::kConcat, line, std::move(parts));
}

JinjaExprPtr JinjaExpressionParser::parse_product() {
  JinjaExprPtr left = parse_power();
  while (is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%")) {
    const JinjaToken sign = next();
    left = make(Kind::kBinary, sign.line, parts_of(std::move(left), parse_power()));
    left->name = sign.text;
  }
  return left;
}

// Jinja's power associates to the left, unlike Python's.
JinjaExprPtr JinjaExpressionParser::parse_power() {
  JinjaExprPtr left = parse_unary();
  while (is_operator("**")) {
    const JinjaToken sign = next();
    left = make(Kind::kBinary, sign.line, parts_of(std::move(left), parse_unary()));
    left->name = sign.text;
  }
  return left;
}

JinjaExprPtr JinjaExpressionParser::parse_unary(Filters filters) {
  const int line = current().line;
  JinjaExprPtr expr;
  if (is_operator("-") || is_operator("+")) {
    const Level level(*this);
    const Kind kind = next().text == "-" ? Kind::kNegative : Kind::kPositive;
    expr = make(kind, line, parts_of(parse_unary(Filters::kLeft)));
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(std::move(expr));
  if (filters == Filters::kLeft) return expr;
  while (true) {
    if (is_operator("|")) {
      expr = parse_filters(std::move(expr), FirstBar::kWritten);
    } else if (is_name("is")) {
      expr = parse_test(std::move(expr));
    } else if (is_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

JinjaExprPtr JinjaExpressionParser::parse_primary() {
  const JinjaToken token = current();
  if (token.kind == Token::kOperator) {
    if (token.text == "(") return parse_parentheses();
    if (token.text == "[") return parse_list();
    if (token.text == "{") return parse_dict();
    fail(fmt::format("unexpected '{}'", token.text));
  }
  JinjaExprPtr expr = make(Kind::kConst, token.line);
  switch (token.kind) {
    case Token::kName:
      next();
      if (token.text == "true" || token.text == "True") {
        expr->value = JinjaValue(true);
      } else if (token.text == "false" || token.text == "False") {
        expr->value = JinjaValue(false);
      } else if (token.text != "none" && token.text != "None") {
        expr->kind = Kind::kName;
        expr->name = token.text;
        names_used_.push_back(token.text);
      }
      return expr;
    case Token::kString: {
      std::string text;
      while (current().kind == Token::kString) text += next().text;
      expr->value = JinjaValue(std::move(text));
      return expr;
    }
    case Token::kInteger:
      expr->value = JinjaValue(next().integer);
      return expr;
    case Token::kFloat:
      expr->value = JinjaValue(next().number);
      return expr;
    default:
      fail(fmt::format("unexpected '{}'", describe(token)));
  }
}

bool JinjaExpressionParser::at_tuple_end() const {
  return current().kind == Token::kVariableEnd || current().kind == Token::kBlockEnd || is_operator(")");
}

JinjaExprPtr JinjaExpressionParser::parse_tuple(Conditionals conditionals) {
  const int line = current().line;
  if (at_tuple_end()) fail(fmt::format("expected an expression, got '{}'", describe(current())));
  std::vector<JinjaExprPtr> parts = parts_of(parse_expression(conditionals));
  if (!is_operator(",")) return std::move(parts.front());
  while (skip_operator(",")) {
    if (at_tuple_end()) break;
    parts.push_back(parse_expression(conditionals));
  }
  return make(Kind::kTuple, line, std::move(parts));
}

JinjaExprPtr JinjaExpressionParser::parse_parentheses() {
  const int line = next().line;
  if (skip_operator(")")) return make(Kind::kTuple, line);
  JinjaExprPtr expr = parse_tuple();
  expect_operator(")");
  return expr;
}

JinjaExprPtr JinjaExpressionParser::parse_list() {
  const int line = next().line;
  std::vector<JinjaExprPtr> parts;
  while (!is_operator("]")) {
    if (!parts.empty()) expect_operator(",");
    if (is_operator("]")) break;
    parts.push_back(parse_expression());
  }
  expect_operator("]");
  return make(Kind::kList, line, std::move(parts));
}

JinjaExprPtr JinjaExpressionParser::parse_dict() {
  const int line = next().line;
  std::vector<JinjaExprPtr> parts;
  while (!is_operator("}")) {
    if (!parts.empty()) expect_operator(",");
    if (is_operator("}")) break;
    parts.push_back(parse_expression());
    expect_operator(":");
    parts.push_back(parse_expression());
  }
  expect_operator("}");
  return make(Kind::kDict, line, std::move(parts));
}

JinjaExprPtr JinjaExpressionParser::parse_postfix(JinjaExprPtr expr) {
  while (true) {
    if (is_operator(".")) {
      const int line = next().line;
      if (current().kind == Token::kName) {
        expr = make(Kind::kAttribute, line, parts_of(std::move(expr)));
        expr->name = next().text;
      } else if (current().kind == Token::kInteger) {
        JinjaExprPtr index = make(Kind::kConst, line);
        index->value = JinjaValue(next().integer);
        expr = make(Kind::kItem, line, parts_of(std::move(expr), std::move(index)));
      } else {
        fail("expected name or number");
      }
    } else if (is_operator("[")) {
      expr = parse_subscript(std::move(expr));
    } else if (is_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

JinjaExprPtr JinjaExpressionParser::parse_subscript(JinjaExprPtr object) {
  const int line = next().line;
  const auto at_bound_end = [&] { return is_operator(":") || is_operator("]") || is_operator(","); };
  JinjaExprPtr start = is_operator(":") ? nullptr : parse_expression();
  if (!is_operator(":")) {
    if (is_operator(",")) {
      std::vector<JinjaExprPtr> parts = parts_of(std::move(start));
      while (skip_operator(",")) parts.push_back(parse_expression());
      start = make(Kind::kTuple, line, std::move(parts));
    }
    expect_operator("]");
    return make(Kind::kItem, line, parts_of(std::move(object), std::move(start)));
  }
  expect_operator(":");
  JinjaExprPtr stop = at_bound_end() ? nullptr : parse_expression();
  JinjaExprPtr step;
  if (skip_operator(":") && !at_bound_end()) step = parse_expression();
  expect_operator("]");
  return make(Kind::kSlice, line, parts_of(std::move(object), std::move(start), std::move(stop), std::move(step)));
}

void JinjaExpressionParser::parse_arguments(JinjaExpr& call) {
  expect_operator("(");
  for (bool first = true; !is_operator(")"); first = false) {
    if (!first) {
      expect_operator(",");
      if (is_operator(")")) break;
    }
    const bool starred = call.star != nullptr || call.double_star != nullptr;
    if (is_operator("*") && !starred) {
      next();
      call.star = parse_expression();
    } else if (is_operator("**") && call.double_star == nullptr) {
      next();
      call.double_star = parse_expression();
    } else if (current().kind == Token::kName && ahead().kind == Token::kOperator && ahead().text == "=" &&
               call.double_star == nullptr) {
      std::string name = next().text;
      next();
      if (std::find(call.keywords.begin(), call.keywords.end(), name) != call.keywords.end()) {
        fail(fmt::format("the argument '{}' is given twice", name));
      }
      if (call.keywords.size() == kMaxJinjaArguments) {
        fail(fmt::format("a call has more than {} named arguments", kMaxJinjaArguments));
      }
      call.parts.push_back(parse_expression());
      call.keywords.push_back(std::move(name));
    } else if (!starred && call.keywords.empty()) {
      call.parts.push_back(parse_expression());
    } else {
      fail("invalid syntax for function call expression");
    }
  }
  expect_operator(")");
}

JinjaExprPtr JinjaExpressionParser::parse_call(JinjaExprPtr callee) {
  JinjaExprPtr call = make(Kind::kCall, current().line, parts_of(std::move(callee)));
  parse_arguments(*call);
  return checked(std::move(call));
}

JinjaExprPtr JinjaExpressionParser::parse_filters(JinjaExprPtr input, FirstBar bar) {
  while (is_operator("|") || bar == FirstBar::kInline) {
    if (bar == FirstBar::kWritten) next();
    bar = FirstBar::kWritten;
    const int line = current().line;
    std::string name = expect_name();
    while (skip_operator(".")) name += "." + expect_name();
    if (find_jinja_filter(name) == nullptr) unknown_.push_back({fmt::format("No filter named '{}'", name), line});
    JinjaExprPtr filter = make(Kind::kFilter, line, parts_of(std::move(input)));
    filter->name = std::move(name);
    if (is_operator("(")) parse_arguments(*filter);
    input = checked(std::move(filter));
  }
  return input;
}

JinjaExprPtr JinjaExpressionParser::parse_test(JinjaExprPtr input) {
  const int line = next().line;
  const bool negated = skip_name("not");
  std::string name = expect_name();
  while (skip_operator(".")) name += "." + expect_name();
  if (find_jinja_predicate(name) == nullptr) unknown_.push_back({fmt::format("No test named '{}'", name), line});
  JinjaExprPtr test = make(Kind::kTest, line, parts_of(std::move(input)));
  test->name = std::move(name);
  const Token kind = current().kind;
  if (is_operator("(")) {
    parse_arguments(*test);
  } else if (is_name("is")) {
    fail("You cannot chain multiple tests with is");
  } else if ((kind == Token::kName && !is_name("else") && !is_name("or") && !is_name("and")) ||
             kind == Token::kString || kind == Token::kInteger || kind == Token::kFloat || is_operator("[") ||
             is_operator("{")) {
    // `x is foo if y`: an argument named `if` would be odd, but it is what Jinja reads.
    const Level level(*this);
    test->parts.push_back(parse_postfix(parse_primary()));
  }
  test = checked(std::move(test));
  return negated ? make(Kind::kNot, line, parts_of(std::move(test))) : std::move(test);
}

JinjaExprPtr JinjaExpressionParser::parse_target(Attributes attributes) {
  const Level level(*this);
  const int line = current().line;
  std::vector<JinjaExprPtr> parts;
  bool is_tuple = false;
  while (!is_operator(")") && !is_operator("=") && !is_name("in") && current().kind != Token::kBlockEnd) {
    if (is_operator("(")) {
      next();
      parts.push_back(parse_target(attributes));
      expect_operator(")");
    } else {
      const std::string name = expect_name();
      for (const std::string_view constant : {"true", "True", "false", "False", "none", "None"}) {
        if (name == constant) fail(fmt::format("can't assign to '{}'", name));
      }
      JinjaExprPtr target = make(Kind::kName, line);
      target->name = name;
      if (attributes == Attributes::kAllowed && skip_operator(".")) {
        target = make(Kind::kAttribute, line, parts_of(std::move(target)));
        target->name = expect_name();
      }
      parts.push_back(std::move(target));
    }
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (parts.empty()) fail(fmt::format("expected a name, got '{}'", describe(current())));
  if (!is_tuple) return std::move(parts.front());
  return make(Kind::kTuple, line, std::move(parts));
}

}  // namespace sluice
