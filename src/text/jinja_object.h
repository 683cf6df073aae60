// SPDX-License-Identifier: Apache-2.0
// Things in a template that have state or can be called: namespaces, loops, macros, functions. The interpreter owns
// them for the length of one rendering; values only point at them, so that they may refer to one another.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace sluice {

class JinjaInterpreter;

struct JinjaArguments {
  JinjaValues positional;
  std::vector<std::pair<std::string, JinjaValue>> named;

  // Takes the named argument out, so that what is left over can be refused.
  std::optional<JinjaValue> take(std::string_view name);
  bool has(std::string_view name) const;
};

class JinjaObject {
 public:
  JinjaObject() = default;
  JinjaObject(const JinjaObject&) = delete;
  JinjaObject& operator=(const JinjaObject&) = delete;
  virtual ~JinjaObject() = default;

  virtual std::string_view type_name() const = 0;
  virtual bool callable() const { return false; }
  virtual std::optional<JinjaValue> attribute(std::string_view /*name*/) { return std::nullopt; }
  // What attribute() may have to look through.
  virtual std::size_t num_attributes() const { return 0; }
  virtual JinjaValue call(JinjaInterpreter& interpreter, JinjaArguments arguments);
  // What is left to iterate over, for those that can be iterated once; nothing for the others.
  virtual std::optional<JinjaValues> consume() { return std::nullopt; }
};

// What filters such as `map` and `select` give: true even when empty, without a length, gone once iterated.
class JinjaGenerator : public JinjaObject {
 public:
  explicit JinjaGenerator(JinjaValues items) : items_(std::move(items)) {}
  std::string_view type_name() const override { return "generator"; }
  std::optional<JinjaValues> consume() override;
  // The next item alone; nothing at the end.
  std::optional<JinjaValue> next();

 private:
  JinjaValues items_;
  std::size_t at_ = 0;
};

class JinjaNamespace : public JinjaObject {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  std::optional<JinjaValue> attribute(std::string_view name) override;
  std::size_t num_attributes() const override { return items_.size(); }
  void assign(std::string_view name, JinjaValue value);

 private:
  std::vector<std::pair<std::string, JinjaValue>> items_;
};

class JinjaFunction : public JinjaObject {
 public:
  using Body = JinjaValue (*)(JinjaInterpreter&, JinjaArguments);
  explicit JinjaFunction(Body body) : body_(body) {}
  std::string_view type_name() const override { return "function"; }
  bool callable() const override { return true; }
  JinjaValue call(JinjaInterpreter& interpreter, JinjaArguments arguments) override {
    return body_(interpreter, std::move(arguments));
  }

 private:
  Body body_;
};

// A method that was looked up but not called yet: {% set f = text.upper %}.
class JinjaMethod : public JinjaObject {
 public:
  JinjaMethod(JinjaValue owner, std::string name) : owner_(std::move(owner)), name_(std::move(name)) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  JinjaValue call(JinjaInterpreter& interpreter, JinjaArguments arguments) override;

 private:
  JinjaValue owner_;
  std::string name_;
};

// `loop` inside a for: owns the items, and knows the one at hand and its neighbours.
class JinjaLoop : public JinjaObject {
 public:
  explicit JinjaLoop(JinjaValues items)
      : items_(std::move(items)), num_items_(static_cast<std::int64_t>(items_.size())) {}
  std::string_view type_name() const override { return "LoopContext"; }
  std::optional<JinjaValue> attribute(std::string_view name) override;
  JinjaValue cycle(const JinjaValues& values) const;
  JinjaValue changed(JinjaValues values, JinjaMeter& meter);

  std::size_t num_items() const { return items_.size(); }
  const JinjaValue& current() const { return items_[static_cast<std::size_t>(index_)]; }
  void advance() { ++index_; }
  // Lets go of the items, though the template may have kept `loop` somewhere.
  void end() { items_ = {}; }

 private:
  JinjaValue neighbour(std::int64_t index, std::string_view missing) const;

  JinjaValues items_;
  std::int64_t num_items_;
  std::int64_t index_ = -1;
  JinjaValue last_changed_;
};

// cycler('a', 'b') and joiner(', ').
class JinjaCycler : public JinjaObject {
 public:
  explicit JinjaCycler(JinjaValues items) : items_(std::move(items)) {}
  std::string_view type_name() const override { return "Cycler"; }
  std::optional<JinjaValue> attribute(std::string_view name) override;
  const JinjaValue& next();
  void reset() { at_ = 0; }

 private:
  JinjaValues items_;
  std::size_t at_ = 0;
};

class JinjaJoiner : public JinjaObject {
 public:
  explicit JinjaJoiner(JinjaValue separator) : separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  JinjaValue call(JinjaInterpreter& interpreter, JinjaArguments arguments) override;

 private:
  JinjaValue separator_;
  bool used_ = false;
};

}  // namespace sluice
