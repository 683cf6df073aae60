// SPDX-License-Identifier: Apache-2.0
// Runs a parsed template once. Owns the objects the template makes and the text it writes; what filters, tests and
// methods need from a running template is public here. Everything is charged to the meter. One thread, one rendering.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_object.h"
#include "text/jinja_parser.h"
#include "text/jinja_value.h"

namespace sluice {

struct TextSpan {
  std::size_t begin = 0;  // in bytes
  std::size_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

// Output of one iteration of a loop over the watched list.
struct JinjaTurn {
  std::size_t item = 0;  // index in the watched list
  TextSpan text;
};

struct JinjaOutput {
  std::string text;
  std::vector<TextSpan> generated;  // what {% generation %} blocks wrote
  // A {% generation %} block ran inside a macro or a block whose text became a value: its place is not known.
  bool lost_generation = false;
  // Iterations over items of the watched list, in the order they ended; only text written directly to the output.
  std::vector<JinjaTurn> turns;
};

struct JinjaScope {
  std::shared_ptr<JinjaScope> parent;                         // owned by the inner scopes and the macros made in it
  std::vector<std::pair<std::string_view, JinjaValue>> here;  // names belong to the template
};

class JinjaInterpreter {
 public:
  // `watched` names the list variable whose iterations are recorded in JinjaOutput::turns; empty: none.
  JinjaInterpreter(const JinjaProgram& program, const JinjaDict& variables, const JinjaLimits& limits,
                   std::int64_t unix_time_s, std::string_view watched = {});

  JinjaOutput run();
  int line() const { return line_; }

  JinjaMeter& meter() { return meter_; }
  std::int64_t unix_time_s() const { return unix_time_s_; }

  template <typename Object>
  Object* own(std::unique_ptr<Object> object) {
    meter_.allocate(sizeof(Object) + 64);
    Object* const raw = object.get();
    objects_.push_back(std::move(object));
    return raw;
  }

  JinjaValue generator(JinjaValues items);
  // object.name, object[key], object[start:stop:step] and their undefined outcomes.
  JinjaValue attribute(const JinjaValue& object, std::string_view name);
  JinjaValue item(const JinjaValue& object, const JinjaValue& key);
  JinjaValue slice(const JinjaValue& object, const JinjaValue& start, const JinjaValue& stop, const JinjaValue& step);
  JinjaValue call(const JinjaValue& callee, JinjaArguments arguments);
  JinjaValue filter(std::string_view name, const JinjaValue& input, JinjaArguments arguments);
  bool test(std::string_view name, const JinjaValue& input, const JinjaArguments& arguments);
  // Everything in it; uses up a generator. Throws where Python's iter() would.
  JinjaValues iterate(const JinjaValue& value);
  // len(); throws where there is none.
  std::int64_t length(const JinjaValue& value);
  bool contains(const JinjaValue& container, const JinjaValue& item);
  std::string text(const JinjaValue& value);

  JinjaValue call_macro(const JinjaStatement& macro, const std::shared_ptr<JinjaScope>& scope,
                        JinjaArguments arguments);

 private:
  enum class Flow { kOn, kBreak, kContinue };

  Flow execute(const JinjaBody& body);
  Flow execute(const JinjaStatement& statement);
  Flow execute_if(const JinjaStatement& statement);
  Flow execute_for(const JinjaStatement& statement);
  Flow execute_set_block(const JinjaStatement& statement);
  void execute_call_block(const JinjaStatement& statement);
  Flow execute_with(const JinjaStatement& statement);
  void execute_generation(const JinjaStatement& statement);
  void write(std::string_view text);
  // What the body writes, as text instead of output.
  Flow capture(const JinjaBody& body, std::shared_ptr<JinjaScope> scope, std::string& captured);
  void assign(const JinjaExpr& target, JinjaValue value);
  void set(std::string_view name, JinjaValue value);
  bool passes(const JinjaStatement& loop, const JinjaValue& item);
  void note_turn(const JinjaValue& item, std::size_t begin);

  JinjaValue evaluate(const JinjaExpr& expr);
  JinjaValue no_element(const JinjaValue& object, const JinjaValue& key);
  JinjaValue evaluate_kind(const JinjaExpr& expr);
  JinjaValue evaluate_name(const JinjaExpr& expr);
  JinjaValue evaluate_items(const JinjaExpr& expr);
  JinjaValue evaluate_dict(const JinjaExpr& expr);
  JinjaValue evaluate_call(const JinjaExpr& expr);
  // `block` is the input of the first filter in a filter block, null in an expression.
  void charge_reading(const JinjaValue& input, const JinjaArguments& arguments);
  JinjaValue evaluate_filter(const JinjaExpr& expr, const JinjaValue* block);
  JinjaValue evaluate_test(const JinjaExpr& expr);
  JinjaValue evaluate_slice(const JinjaExpr& expr);
  JinjaValue evaluate_compare(const JinjaExpr& expr);
  JinjaValue evaluate_concat(const JinjaExpr& expr);
  JinjaValue evaluate_conditional(const JinjaExpr& expr);
  JinjaArguments evaluate_arguments(const JinjaExpr& expr);

  const JinjaProgram& program_;
  const JinjaDict& variables_;
  JinjaMeter meter_;
  std::int64_t unix_time_s_;
  std::vector<std::unique_ptr<JinjaObject>> objects_;
  std::shared_ptr<JinjaScope> scope_;
  JinjaOutput root_;
  std::unordered_map<const JinjaDict*, std::size_t> watched_;  // index of each dict in the watched list
  std::string* out_;
  int depth_ = 0;
  int line_ = 0;
};

}  // namespace sluice
