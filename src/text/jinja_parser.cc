// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_parser.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "text/jinja_expression_parser.h"

namespace sluice {
namespace {

class Parser : public JinjaExpressionParser {
 public:
  using JinjaExpressionParser::JinjaExpressionParser;

  JinjaProgram run() {
    JinjaProgram program;
    program.body = parse_body({});
    if (!unknown_.empty()) throw JinjaSyntaxError(unknown_.front());
    program.has_generation = has_generation_;
    return program;
  }

 private:
  using Statement = JinjaStatement;
  using Stop = std::initializer_list<std::string_view>;

  bool at_any(Stop names) const {
    return std::any_of(names.begin(), names.end(), [this](std::string_view name) { return is_name(name); });
  }

  void expect_block_end() {
    if (current().kind != Token::kBlockEnd) fail(fmt::format("expected the end of the tag, got '{}'", current().text));
    next();
  }

  // Statements until a tag that starts with one of `stops`, which becomes the current token.
  JinjaBody parse_body(Stop stops) {
    const Level level(*this);
    JinjaBody body;
    while (current().kind != Token::kEnd) {
      Statement statement;
      statement.line = current().line;
      if (current().kind == Token::kData) {
        statement.kind = Statement::Kind::kData;
        statement.text = next().text;
      } else if (current().kind == Token::kVariableBegin) {
        next();
        statement.kind = Statement::Kind::kPrint;
        statement.value = parse_tuple();
        if (current().kind != Token::kVariableEnd) {
          fail(fmt::format("expected the end of the print statement, got '{}'", current().text));
        }
        next();
      } else {
        next();
        if (at_any(stops)) return body;
        parse_statement(statement);
        expect_block_end();
      }
      body.push_back(std::move(statement));
    }
    if (stops.size() > 0) {
      fail(fmt::format("the template ends where '{}' was expected", *(stops.end() - 1)));
    }
    return body;
  }

  // The body of the tag at hand, up to and including the name of the tag that ends it.
  JinjaBody parse_block(std::string_view end) {
    skip_operator(":");
    expect_block_end();
    JinjaBody body = parse_body({end});
    next();
    return body;
  }

  void parse_statement(Statement& statement) {
    if (current().kind != Token::kName) fail("a tag's name was expected");
    const std::string tag = next().text;
    if (tag == "if") {
      parse_if(statement);
    } else if (tag == "for") {
      parse_for(statement);
    } else if (tag == "set") {
      parse_set(statement);
    } else if (tag == "macro") {
      parse_macro(statement);
    } else if (tag == "call") {
      parse_call_block(statement);
    } else if (tag == "filter") {
      statement.kind = Statement::Kind::kFilterBlock;
      statement.value = parse_filters(nullptr, FirstBar::kInline);
      statement.body = parse_block("endfilter");
    } else if (tag == "with") {
      parse_with(statement);
    } else if (tag == "generation") {
      has_generation_ = true;
      statement.kind = Statement::Kind::kGeneration;
      statement.body = parse_outside_loops("endgeneration");
    } else if (tag == "break" || tag == "continue") {
      if (loop_depth_ == 0) fail(fmt::format("'{}' outside loop", tag));
      statement.kind = tag == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue;
    } else {
      fail(fmt::format("Encountered unknown tag '{}'", tag));
    }
  }

  void parse_if(Statement& statement) {
    statement.kind = Statement::Kind::kIf;
    const std::size_t num_unknown = unknown_.size();
    while (true) {
      JinjaBranch& branch = statement.branches.emplace_back();
      branch.condition = parse_tuple(Conditionals::kLeft);
      skip_operator(":");
      expect_block_end();
      branch.body = parse_body({"elif", "else", "endif"});
      const std::string tag = next().text;
      if (tag == "elif") continue;
      if (tag == "else") statement.otherwise = parse_block("endif");
      break;
    }
    unknown_.resize(num_unknown);
  }

  void parse_for(Statement& statement) {
    statement.kind = Statement::Kind::kFor;
    statement.target = parse_target(Attributes::kRefused);
    if (!skip_name("in")) fail("expected 'in'");
    statement.value = parse_tuple(Conditionals::kLeft);
    if (skip_name("if")) statement.condition = parse_expression();
    if (is_name("recursive")) fail("recursive loops are not supported; use a macro");
    skip_operator(":");
    expect_block_end();
    ++loop_depth_;
    const std::size_t first = position();
    statement.body = parse_body({"endfor", "else"});
    statement.uses_loop = mentions_since(first, "loop");
    --loop_depth_;
    if (next().text == "else") statement.otherwise = parse_block("endfor");
  }

  void parse_set(Statement& statement) {
    statement.target = parse_target(Attributes::kAllowed);
    if (skip_operator("=")) {
      statement.kind = Statement::Kind::kSet;
      statement.value = parse_tuple();
      return;
    }
    statement.kind = Statement::Kind::kSetBlock;
    statement.value = parse_filters(nullptr, FirstBar::kWritten);
    statement.body = parse_block("endset");
  }

  void parse_with(Statement& statement) {
    statement.kind = Statement::Kind::kWith;
    while (current().kind != Token::kBlockEnd) {
      if (!statement.list.empty()) expect_operator(",");
      statement.list.push_back(parse_with_target());
      expect_operator("=");
      statement.list.push_back(parse_expression());
    }
    statement.body = parse_block("endwith");
  }

  JinjaExprPtr parse_with_target() { return parse_target(Attributes::kRefused); }

  JinjaParameters parse_parameters() {
    JinjaParameters parameters;
    expect_operator("(");
    while (!is_operator(")")) {
      if (!parameters.names.empty()) expect_operator(",");
      std::string name = expect_name();
      if (std::find(parameters.names.begin(), parameters.names.end(), name) != parameters.names.end()) {
        fail(fmt::format("the parameter '{}' is there twice", name));
      }
      if (parameters.names.size() == kMaxJinjaArguments) {
        fail(fmt::format("a macro has more than {} parameters", kMaxJinjaArguments));
      }
      parameters.names.push_back(std::move(name));
      if (skip_operator("=")) {
        parameters.defaults.push_back(parse_expression());
      } else if (!parameters.defaults.empty()) {
        fail("non-default argument follows default argument");
      }
    }
    expect_operator(")");
    return parameters;
  }

  // Bodies that become functions: no loop around them can be left from inside.
  JinjaBody parse_outside_loops(std::string_view end) {
    const int loop_depth = std::exchange(loop_depth_, 0);
    JinjaBody body = parse_block(end);
    loop_depth_ = loop_depth;
    return body;
  }

  void parse_function(Statement& statement, std::string_view end) {
    const std::size_t names_before = names_used_.size();
    statement.body = parse_outside_loops(end);
    const auto uses = [&](std::string_view name) {
      return std::find(names_used_.begin() + static_cast<std::ptrdiff_t>(names_before), names_used_.end(), name) !=
             names_used_.end();
    };
    statement.uses_caller = uses("caller");
    statement.uses_varargs = uses("varargs");
    statement.uses_kwargs = uses("kwargs");
  }

  void parse_macro(Statement& statement) {
    statement.kind = Statement::Kind::kMacro;
    statement.text = expect_name();
    statement.parameters = parse_parameters();
    parse_function(statement, "endmacro");
  }

  void parse_call_block(Statement& statement) {
    statement.kind = Statement::Kind::kCallBlock;
    if (is_operator("(")) statement.parameters = parse_parameters();
    statement.value = parse_expression();
    if (statement.value->kind != JinjaExpr::Kind::kCall) fail("expected call");
    parse_function(statement, "endcall");
  }

  int loop_depth_ = 0;
  bool has_generation_ = false;
};

}  // namespace

JinjaProgram parse_jinja(std::string_view source) { return Parser(lex_jinja(source)).run(); }

}  // namespace sluice
