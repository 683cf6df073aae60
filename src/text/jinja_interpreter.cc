// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_interpreter.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "text/jinja_depth.h"
#include "text/jinja_print.h"

namespace sluice {
namespace {

class Macro : public JinjaObject {
 public:
  Macro(const JinjaStatement& statement, std::shared_ptr<JinjaScope> scope)
      : statement_(statement), scope_(std::move(scope)) {}
  std::string_view type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  std::optional<JinjaValue> attribute(std::string_view name) override {
    if (name == "name") return JinjaValue(statement_.text);
    return std::nullopt;
  }
  JinjaValue call(JinjaInterpreter& interpreter, JinjaArguments arguments) override {
    return interpreter.call_macro(statement_, scope_, std::move(arguments));
  }

 private:
  const JinjaStatement& statement_;
  std::shared_ptr<JinjaScope> scope_;  // shared with the code that runs in it
};

// Puts a variable back to what it was, also when a template fails.
template <typename T>
class Restore {
 public:
  explicit Restore(T& place) : place_(place), saved_(place) {}
  ~Restore() { place_ = std::move(saved_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& place_;
  T saved_;
};

std::shared_ptr<JinjaScope> inner_scope(const std::shared_ptr<JinjaScope>& parent) {
  auto scope = std::make_shared<JinjaScope>();
  scope->parent = parent;
  return scope;
}

}  // namespace

JinjaInterpreter::JinjaInterpreter(const JinjaProgram& program, const JinjaDict& variables, const JinjaLimits& limits,
                                   std::int64_t unix_time_s, std::string_view watched)
    : program_(program),
      variables_(variables),
      meter_(limits),
      unix_time_s_(unix_time_s),
      scope_(std::make_shared<JinjaScope>()),
      out_(&root_.text) {
  const JinjaValue* const list = watched.empty() ? nullptr : variables.find(watched);
  if (list == nullptr || !list->is_sequence()) return;
  const JinjaValues& items = list->as_sequence().items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].is_dict()) watched_.emplace(&items[i].as_dict(), i);
  }
}

JinjaOutput JinjaInterpreter::run() {
  execute(program_.body);
  return std::move(root_);
}

void JinjaInterpreter::write(std::string_view text) {
  meter_.check_output(out_->size() + text.size());
  meter_.allocate(text.size());
  *out_ += text;
}

JinjaInterpreter::Flow JinjaInterpreter::execute(const JinjaBody& body) {
  for (const JinjaStatement& statement : body) {
    const Flow flow = execute(statement);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

JinjaInterpreter::Flow JinjaInterpreter::execute(const JinjaStatement& statement) {
  const JinjaDepth depth(depth_);
  meter_.step();
  line_ = statement.line;
  switch (statement.kind) {
    case JinjaStatement::Kind::kData:
      write(statement.text);
      break;
    case JinjaStatement::Kind::kPrint:
      write(text(evaluate(*statement.value)));
      break;
    case JinjaStatement::Kind::kIf:
      return execute_if(statement);
    case JinjaStatement::Kind::kFor:
      return execute_for(statement);
    case JinjaStatement::Kind::kSet:
      assign(*statement.target, evaluate(*statement.value));
      break;
    case JinjaStatement::Kind::kSetBlock:
      return execute_set_block(statement);
    case JinjaStatement::Kind::kMacro:
      set(statement.text, JinjaValue(own(std::make_unique<Macro>(statement, scope_))));
      break;
    case JinjaStatement::Kind::kCallBlock:
      execute_call_block(statement);
      break;
    case JinjaStatement::Kind::kFilterBlock: {
      std::string captured;
      const Flow flow = capture(statement.body, inner_scope(scope_), captured);
      if (flow != Flow::kOn) return flow;
      const JinjaValue body(std::move(captured));
      write(text(evaluate_filter(*statement.value, &body)));
      break;
    }
    case JinjaStatement::Kind::kWith:
      return execute_with(statement);
    case JinjaStatement::Kind::kGeneration:
      execute_generation(statement);
      break;
    case JinjaStatement::Kind::kBreak:
      return Flow::kBreak;
    case JinjaStatement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

JinjaInterpreter::Flow JinjaInterpreter::execute_if(const JinjaStatement& statement) {
  for (const JinjaBranch& branch : statement.branches) {
    if (evaluate(*branch.condition).truth()) return execute(branch.body);
  }
  return execute(statement.otherwise);
}

bool JinjaInterpreter::passes(const JinjaStatement& loop, const JinjaValue& item) {
  meter_.step();
  const Restore restore(scope_);
  scope_ = inner_scope(scope_);
  assign(*loop.target, item);
  return evaluate(*loop.condition).truth();
}

void JinjaInterpreter::note_turn(const JinjaValue& item, std::size_t begin) {
  if (out_ != &root_.text || !item.is_dict()) return;
  const auto found = watched_.find(&item.as_dict());
  if (found != watched_.end()) root_.turns.push_back({found->second, {begin, out_->size()}});
}

// Items are asked for their condition when their turn comes: what a body has done counts. A body that asks its loop how
// long it is, or what comes next, has them asked at once.
JinjaInterpreter::Flow JinjaInterpreter::execute_for(const JinjaStatement& statement) {
  JinjaValues items = iterate(evaluate(*statement.value));
  const bool asks_each = statement.condition != nullptr && !statement.uses_loop;
  if (statement.condition != nullptr && !asks_each) {
    std::erase_if(items, [&](const JinjaValue& item) { return !passes(statement, item); });
  }
  JinjaLoop* const loop = own(std::make_unique<JinjaLoop>(std::move(items)));
  const Restore restore(scope_);
  const std::shared_ptr<JinjaScope> outer = scope_;
  if (loop->num_items() == 0) {
    scope_ = inner_scope(outer);
    return execute(statement.otherwise);
  }
  Flow flow = Flow::kOn;
  bool has_ended = false;  // an iteration, neither broken off nor continued elsewhere: only then there is no else
  for (std::size_t i = 0; i < loop->num_items() && flow != Flow::kBreak; ++i) {
    meter_.step();
    scope_ = outer;
    loop->advance();
    if (asks_each && !passes(statement, loop->current())) continue;
    scope_ = inner_scope(outer);
    set("loop", JinjaValue(loop));
    assign(*statement.target, loop->current());
    const std::size_t begin = out_->size();
    flow = execute(statement.body);
    if (!watched_.empty()) note_turn(loop->current(), begin);
    has_ended = has_ended || flow == Flow::kOn;
  }
  loop->end();
  if (has_ended) return Flow::kOn;
  scope_ = inner_scope(outer);
  return execute(statement.otherwise);
}

JinjaInterpreter::Flow JinjaInterpreter::capture(const JinjaBody& body, std::shared_ptr<JinjaScope> scope,
                                                 std::string& captured) {
  const Restore restore_scope(scope_);
  const Restore restore_out(out_);
  scope_ = std::move(scope);
  out_ = &captured;
  return execute(body);
}

// What a loop is left from is not set.
JinjaInterpreter::Flow JinjaInterpreter::execute_set_block(const JinjaStatement& statement) {
  std::string captured;
  const Flow flow = capture(statement.body, inner_scope(scope_), captured);
  if (flow != Flow::kOn) return flow;
  JinjaValue value(std::move(captured));
  if (statement.value != nullptr) value = evaluate_filter(*statement.value, &value);
  assign(*statement.target, std::move(value));
  return Flow::kOn;
}

void JinjaInterpreter::execute_call_block(const JinjaStatement& statement) {
  const JinjaExpr& call_expr = *statement.value;
  const JinjaValue callee = evaluate(*call_expr.parts.front());
  JinjaArguments arguments = evaluate_arguments(call_expr);
  arguments.named.emplace_back("caller", JinjaValue(own(std::make_unique<Macro>(statement, scope_))));
  write(text(call(callee, std::move(arguments))));
}

JinjaInterpreter::Flow JinjaInterpreter::execute_with(const JinjaStatement& statement) {
  JinjaValues values;
  for (std::size_t i = 1; i < statement.list.size(); i += 2) values.push_back(evaluate(*statement.list[i]));
  const Restore restore(scope_);
  scope_ = inner_scope(scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(*statement.list[2 * i], std::move(values[i]));
  return execute(statement.body);
}

void JinjaInterpreter::execute_generation(const JinjaStatement& statement) {
  const Restore restore(scope_);
  scope_ = inner_scope(scope_);
  const std::size_t begin = out_->size();
  execute(statement.body);
  if (out_ == &root_.text) {
    if (out_->size() > begin) root_.generated.push_back({begin, out_->size()});
  } else {
    root_.lost_generation = true;
  }
}

void JinjaInterpreter::set(std::string_view name, JinjaValue value) {
  meter_.step(scope_->here.size() / 8);
  for (auto& [known, place] : scope_->here) {
    if (known == name) {
      place = std::move(value);
      return;
    }
  }
  scope_->here.emplace_back(name, std::move(value));
}

void JinjaInterpreter::assign(const JinjaExpr& target, JinjaValue value) {
  switch (target.kind) {
    case JinjaExpr::Kind::kName:
      set(target.name, std::move(value));
      return;
    case JinjaExpr::Kind::kAttribute: {
      const JinjaValue object = evaluate(*target.parts.front());
      auto* const space = object.is_object() ? dynamic_cast<JinjaNamespace*>(object.as_object()) : nullptr;
      if (space == nullptr) throw JinjaFailure("cannot assign attribute on non-namespace object");
      meter_.step(space->num_attributes() / 8);
      space->assign(target.name, std::move(value));
      return;
    }
    default: {
      JinjaValues items = iterate(value);
      if (items.size() != target.parts.size()) {
        throw JinjaFailure(fmt::format("cannot unpack {} values into {}", items.size(), target.parts.size()));
      }
      for (std::size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], std::move(items[i]));
    }
  }
}

JinjaValue JinjaInterpreter::call_macro(const JinjaStatement& macro, const std::shared_ptr<JinjaScope>& scope,
                                        JinjaArguments arguments) {
  const JinjaDepth depth(depth_);
  const auto name = [&] { return macro.text.empty() ? std::string("caller") : macro.text; };
  const std::vector<std::string>& names = macro.parameters.names;
  const std::size_t num_required = names.size() - macro.parameters.defaults.size();
  const Restore restore(scope_);
  scope_ = inner_scope(scope);
  const bool takes_caller = macro.uses_caller && std::find(names.begin(), names.end(), "caller") == names.end();

  // Defaults may speak of earlier parameters, so they are evaluated in the macro's own scope, in order.
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i < arguments.positional.size()) {
      set(names[i], arguments.positional[i]);
    } else if (std::optional<JinjaValue> named = arguments.take(names[i])) {
      set(names[i], std::move(*named));
    } else if (i >= num_required) {
      set(names[i], evaluate(*macro.parameters.defaults[i - num_required]));
    } else {
      set(names[i], JinjaValue::undefined(fmt::format("parameter '{}' was not provided", names[i])));
    }
  }
  if (takes_caller) {
    std::optional<JinjaValue> caller = arguments.take("caller");
    set("caller", caller ? std::move(*caller) : JinjaValue::undefined("No caller defined"));
  }
  if (macro.uses_kwargs) {
    JinjaPairs pairs;
    for (auto& [key, value] : arguments.named) pairs.emplace_back(JinjaValue(key), std::move(value));
    set("kwargs", JinjaValue::dict(std::move(pairs)));
  } else if (!arguments.named.empty()) {
    throw JinjaFailure(fmt::format("macro '{}' takes no keyword argument '{}'", name(), arguments.named.front().first));
  }
  if (macro.uses_varargs) {
    JinjaValues rest;
    for (std::size_t i = names.size(); i < arguments.positional.size(); ++i) rest.push_back(arguments.positional[i]);
    set("varargs", JinjaValue::tuple(std::move(rest)));
  } else if (arguments.positional.size() > names.size()) {
    throw JinjaFailure(fmt::format("macro '{}' takes not more than {} argument(s)", name(), names.size()));
  }
  std::string captured;
  capture(macro.body, scope_, captured);
  return JinjaValue(std::move(captured));
}

}  // namespace sluice
