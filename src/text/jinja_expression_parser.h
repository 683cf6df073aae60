// SPDX-License-Identifier: Apache-2.0
// The expressions of Jinja's grammar, over a list of tokens that the statements share. Used by jinja_parser.cc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace sluice {

// Of parameters and named arguments: each is looked for among the others.
inline constexpr std::size_t kMaxJinjaArguments = 1024;

class JinjaExpressionParser {
 public:
  explicit JinjaExpressionParser(std::vector<JinjaToken> tokens) : tokens_(std::move(tokens)) {}

 protected:
  using Kind = JinjaExpr::Kind;
  using Token = JinjaToken::Kind;
  enum class Conditionals { kAllowed, kLeft };

  [[noreturn]] void fail(std::string message) const;
  const JinjaToken& current() const { return tokens_[at_]; }
  std::size_t position() const { return at_; }
  bool mentions_since(std::size_t position, std::string_view name) const;
  const JinjaToken& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  JinjaToken next() { return current().kind == Token::kEnd ? current() : tokens_[at_++]; }
  bool is_operator(std::string_view text) const { return current().kind == Token::kOperator && current().text == text; }
  bool is_name(std::string_view text) const { return current().kind == Token::kName && current().text == text; }
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  std::string expect_name();

  // Entering a level of nesting; the guard leaves it.
  class Level {
   public:
    explicit Level(JinjaExpressionParser& parser);
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    JinjaExpressionParser& parser_;
  };

  JinjaExprPtr parse_expression(Conditionals conditionals = Conditionals::kAllowed);
  // One expression, or several between commas as a tuple.
  JinjaExprPtr parse_tuple(Conditionals conditionals = Conditionals::kAllowed);
  // What may stand left of `=` or `in`: a name, a tuple of them, and a namespace's attribute where asked for.
  enum class Attributes { kAllowed, kRefused };
  JinjaExprPtr parse_target(Attributes attributes);
  // "|name(...)|name" behind `input`; with `kInline` the first bar is left out.
  enum class FirstBar { kWritten, kInline };
  JinjaExprPtr parse_filters(JinjaExprPtr input, FirstBar bar);

  // Filters and tests that do not exist. Those met inside a condition are taken out again: such code may never run.
  std::vector<JinjaSyntaxError> unknown_;
  std::vector<std::string> names_used_;

 private:
  JinjaExprPtr make(Kind kind, int line, std::vector<JinjaExprPtr> parts = {});
  JinjaExprPtr checked(JinjaExprPtr expr) const;
  bool at_tuple_end() const;
  JinjaExprPtr parse_or();
  JinjaExprPtr parse_and();
  JinjaExprPtr parse_not();
  JinjaExprPtr parse_compare();
  JinjaExprPtr parse_sum();
  JinjaExprPtr parse_concat();
  JinjaExprPtr parse_product();
  JinjaExprPtr parse_power();
  enum class Filters { kFollow, kLeft };
  JinjaExprPtr parse_unary(Filters filters = Filters::kFollow);
  JinjaExprPtr parse_primary();
  JinjaExprPtr parse_parentheses();
  JinjaExprPtr parse_list();
  JinjaExprPtr parse_dict();
  JinjaExprPtr parse_postfix(JinjaExprPtr expr);
  JinjaExprPtr parse_subscript(JinjaExprPtr object);
  JinjaExprPtr parse_test(JinjaExprPtr input);
  JinjaExprPtr parse_call(JinjaExprPtr callee);
  void parse_arguments(JinjaExpr& call);

  std::vector<JinjaToken> tokens_;
  std::size_t at_ = 0;
  int level_ = 0;
};

}  // namespace sluice
