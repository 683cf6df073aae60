// SPDX-License-Identifier: Apache-2.0
// A value in a Jinja template, with the meaning Python gives it: text counts code points, True equals 1, lists and
// dicts never change (the sandbox that chat templates run in forbids it), so values are shared freely and cannot form
// cycles. Things with state (namespaces, loops, macros) are JinjaObjects that the interpreter owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "text/jinja_meter.h"

namespace sluice {

class JinjaObject;
struct JinjaSequence;
class JinjaDict;

struct JinjaNone {};

// What a missing name or key gives: prints as nothing, is false, and fails with `message` when it is used.
struct JinjaUndefined {
  std::shared_ptr<const std::string> message;
};

class JinjaValue {
 public:
  using Text = std::shared_ptr<const std::string>;  // the owners are whichever values hold it
  using Sequence = std::shared_ptr<const JinjaSequence>;
  using Dict = std::shared_ptr<const JinjaDict>;

  JinjaValue() : value_(JinjaNone{}) {}
  explicit JinjaValue(JinjaUndefined value) : value_(std::move(value)) {}
  explicit JinjaValue(bool value) : value_(value) {}
  explicit JinjaValue(std::int64_t value) : value_(value) {}
  explicit JinjaValue(double value) : value_(value) {}
  explicit JinjaValue(std::string value) : value_(std::make_shared<const std::string>(std::move(value))) {}
  explicit JinjaValue(const char*) = delete;
  explicit JinjaValue(Sequence value) : value_(std::move(value)) {}
  explicit JinjaValue(Dict value) : value_(std::move(value)) {}
  explicit JinjaValue(JinjaObject* value) : value_(value) {}

  static JinjaValue undefined(std::string message);
  static JinjaValue list(std::vector<JinjaValue> items);
  static JinjaValue tuple(std::vector<JinjaValue> items);
  static JinjaValue dict(std::vector<std::pair<JinjaValue, JinjaValue>> items);
  static JinjaValue from_json(const nlohmann::ordered_json& json);

  bool is_undefined() const { return std::holds_alternative<JinjaUndefined>(value_); }
  bool is_none() const { return std::holds_alternative<JinjaNone>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_float() const { return std::holds_alternative<double>(value_); }
  bool is_text() const { return std::holds_alternative<Text>(value_); }
  bool is_sequence() const { return std::holds_alternative<Sequence>(value_); }
  bool is_dict() const { return std::holds_alternative<Dict>(value_); }
  bool is_object() const { return std::holds_alternative<JinjaObject*>(value_); }
  bool is_integral() const { return is_int() || is_bool(); }
  bool is_number() const { return is_integral() || is_float(); }

  // These need the kind to be right, except that integers and booleans pass as integers, all numbers as floats.
  bool as_bool() const { return std::get<bool>(value_); }
  std::int64_t as_int() const { return is_bool() ? std::int64_t{as_bool()} : std::get<std::int64_t>(value_); }
  double as_float() const { return is_float() ? std::get<double>(value_) : static_cast<double>(as_int()); }
  const std::string& as_text() const { return *std::get<Text>(value_); }
  const JinjaSequence& as_sequence() const { return *std::get<Sequence>(value_); }
  const JinjaDict& as_dict() const { return *std::get<Dict>(value_); }
  JinjaObject* as_object() const { return std::get<JinjaObject*>(value_); }
  const std::string& undefined_message() const { return *std::get<JinjaUndefined>(value_).message; }

  // Text that `safe` or `escape` has marked: what is added to it is escaped, as Jinja's Markup does.
  bool is_markup() const { return is_markup_; }
  JinjaValue marked() const;

  // How deep containers are nested in it: 0 for a scalar.
  int depth() const;
  bool truth() const;
  // "str", "NoneType": what Python calls the type.
  std::string_view type_name() const;

 private:
  std::variant<JinjaUndefined, JinjaNone, bool, std::int64_t, double, Text, Sequence, Dict, JinjaObject*> value_;
  bool is_markup_ = false;
};

using JinjaValues = std::vector<JinjaValue>;
using JinjaPairs = std::vector<std::pair<JinjaValue, JinjaValue>>;

struct JinjaSequence {
  enum class Kind { kList, kTuple, kRange, kKeys, kValues, kItems };
  Kind kind = Kind::kList;
  JinjaValues items;
  int depth = 1;
  // Of a range, for printing it.
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;

  bool subscriptable() const { return kind == Kind::kList || kind == Kind::kTuple || kind == Kind::kRange; }
};

// Keeps the order of insertion; a later value for an equal key takes the earlier one's place.
class JinjaDict {
 public:
  explicit JinjaDict(JinjaPairs items);
  const JinjaPairs& items() const { return items_; }
  int depth() const { return depth_; }
  const JinjaValue* find(std::string_view key) const;
  // Throws where the key is of a kind that cannot be one.
  const JinjaValue* find(const JinjaValue& key) const;

 private:
  JinjaPairs items_;
  std::unordered_map<std::string, std::size_t> index_;
  int depth_ = 1;
};

JinjaValue make_sequence(JinjaSequence::Kind kind, JinjaValues items);

bool equal(const JinjaValue& left, const JinjaValue& right, JinjaMeter& meter);
// Python's `<`; throws where the two cannot be ordered.
bool less(const JinjaValue& left, const JinjaValue& right, JinjaMeter& meter);

// Equal for keys that Python takes for the same one. Throws "unhashable type: 'list'".
std::string dict_key(const JinjaValue& value);
// For a copy of it, in a dict; and for looking it up.
void charge_key(JinjaMeter& meter, const JinjaValue& key);
void step_for_key(JinjaMeter& meter, const JinjaValue& key);

}  // namespace sluice
