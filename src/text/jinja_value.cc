// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_value.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/jinja_object.h"

namespace sluice {
namespace {

// Deeper values would overflow the stack when they are printed, compared or freed.
constexpr int kMaxValueDepth = 256;

int checked_depth(int deepest_item) {
  if (deepest_item >= kMaxValueDepth)
    throw JinjaFailure(fmt::format("lists are nested deeper than {}", kMaxValueDepth));
  return deepest_item + 1;
}

[[noreturn]] void refuse_large_number() {
  throw JinjaFailure("a number of the JSON is beyond 64 bits; give it as a string");
}

JinjaValue convert_json(const nlohmann::ordered_json& json, int depth) {
  if (depth > kMaxValueDepth) throw JinjaFailure(fmt::format("the JSON is nested deeper than {}", kMaxValueDepth));
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return JinjaValue(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer:
      return JinjaValue(json.get<std::int64_t>());
    case nlohmann::ordered_json::value_t::number_unsigned: {
      const auto value = json.get<std::uint64_t>();
      if (value > static_cast<std::uint64_t>(INT64_MAX)) refuse_large_number();
      return JinjaValue(static_cast<std::int64_t>(value));
    }
    case nlohmann::ordered_json::value_t::number_float: {
      // As an integer of the file it would be written digit by digit, and the parser has rounded it.
      const auto value = json.get<double>();
      if (std::abs(value) >= 0x1p63 && std::abs(value) < 1e300 && std::floor(value) == value) refuse_large_number();
      return JinjaValue(value);
    }
    case nlohmann::ordered_json::value_t::string:
      return JinjaValue(json.get<std::string>());
    case nlohmann::ordered_json::value_t::array: {
      JinjaValues items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(convert_json(item, depth + 1));
      return JinjaValue::list(std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      JinjaPairs items;
      items.reserve(json.size());
      for (const auto& item : json.items()) {
        items.emplace_back(JinjaValue(item.key()), convert_json(item.value(), depth + 1));
      }
      return JinjaValue::dict(std::move(items));
    }
    default:
      return {};
  }
}

bool equal_items(const JinjaValues& left, const JinjaValues& right, JinjaMeter& meter) {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!equal(left[i], right[i], meter)) return false;
  }
  return true;
}

bool equal_dicts(const JinjaDict& left, const JinjaDict& right, JinjaMeter& meter) {
  if (left.items().size() != right.items().size()) return false;
  for (const auto& [key, value] : left.items()) {
    step_for_key(meter, key);
    const JinjaValue* const other = right.find(key);
    if (other == nullptr || !equal(value, *other, meter)) return false;
  }
  return true;
}

std::string_view sequence_name(JinjaSequence::Kind kind) {
  switch (kind) {
    case JinjaSequence::Kind::kList:
      return "list";
    case JinjaSequence::Kind::kTuple:
      return "tuple";
    case JinjaSequence::Kind::kRange:
      return "range";
    case JinjaSequence::Kind::kKeys:
      return "dict_keys";
    case JinjaSequence::Kind::kValues:
      return "dict_values";
    case JinjaSequence::Kind::kItems:
      return "dict_items";
  }
  return "";
}

}  // namespace

JinjaValue JinjaValue::undefined(std::string message) {
  return JinjaValue(JinjaUndefined{std::make_shared<const std::string>(std::move(message))});
}

JinjaValue make_sequence(JinjaSequence::Kind kind, JinjaValues items) {
  int deepest = 0;
  for (const JinjaValue& item : items) deepest = std::max(deepest, item.depth());
  JinjaSequence sequence;
  sequence.kind = kind;
  sequence.items = std::move(items);
  sequence.depth = checked_depth(deepest);
  return JinjaValue(std::make_shared<const JinjaSequence>(std::move(sequence)));
}

JinjaValue JinjaValue::list(JinjaValues items) { return make_sequence(JinjaSequence::Kind::kList, std::move(items)); }

JinjaValue JinjaValue::tuple(JinjaValues items) { return make_sequence(JinjaSequence::Kind::kTuple, std::move(items)); }

JinjaValue JinjaValue::dict(JinjaPairs items) {
  return JinjaValue(std::make_shared<const JinjaDict>(std::move(items)));
}

JinjaValue JinjaValue::from_json(const nlohmann::ordered_json& json) { return convert_json(json, 0); }

int JinjaValue::depth() const {
  if (is_sequence()) return as_sequence().depth;
  if (is_dict()) return as_dict().depth();
  return 0;
}

bool JinjaValue::truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_integral()) return as_int() != 0;
  if (is_float()) return as_float() != 0;
  if (is_text()) return !as_text().empty();
  if (is_sequence()) return !as_sequence().items.empty();
  if (is_dict()) return !as_dict().items().empty();
  return true;
}

std::string_view JinjaValue::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_text()) return "str";
  if (is_sequence()) return sequence_name(as_sequence().kind);
  if (is_dict()) return "dict";
  return as_object()->type_name();
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the items are moved out of it
JinjaDict::JinjaDict(JinjaPairs items) {
  int deepest = 0;
  items_.reserve(items.size());
  for (auto& [key, value] : items) {
    const auto [place, fresh] = index_.try_emplace(dict_key(key), items_.size());
    deepest = std::max({deepest, key.depth(), value.depth()});
    if (fresh) {
      items_.emplace_back(std::move(key), std::move(value));
    } else {
      items_[place->second].second = std::move(value);
    }
  }
  depth_ = checked_depth(deepest);
}

const JinjaValue* JinjaDict::find(std::string_view key) const {
  std::string name = "s";
  name += key;
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &items_[found->second].second;
}

const JinjaValue* JinjaDict::find(const JinjaValue& key) const {
  const auto found = index_.find(dict_key(key));
  return found == index_.end() ? nullptr : &items_[found->second].second;
}

namespace {

constexpr std::size_t kMaxTupleKeyBytes = 64 * 1024;
constexpr const char* kTooLargeKey = "a tuple is too large to be a key";

// Each part says where it ends.
void append_tuple_key(std::string& key, const JinjaValues& items) {
  key += '(';
  for (const JinjaValue& item : items) {
    if (item.is_sequence() && item.as_sequence().kind == JinjaSequence::Kind::kTuple) {
      append_tuple_key(key, item.as_sequence().items);
    } else {
      if (item.is_text() && item.as_text().size() > kMaxTupleKeyBytes) throw JinjaFailure(kTooLargeKey);
      const std::string part = dict_key(item);
      key += fmt::format("{}:{}", part.size(), part);
    }
    if (key.size() > kMaxTupleKeyBytes) throw JinjaFailure(kTooLargeKey);
  }
  key += ')';
}

}  // namespace

std::string dict_key(const JinjaValue& value) {
  if (value.is_text()) return "s" + value.as_text();
  if (value.is_integral()) return fmt::format("i{}", value.as_int());
  if (value.is_float()) {
    const double number = value.as_float();
    if (std::floor(number) == number && std::abs(number) < 9e15) {
      return fmt::format("i{}", static_cast<std::int64_t>(number));
    }
    return fmt::format("f{}", number);
  }
  if (value.is_none()) return "n";
  if (value.is_undefined()) return "u";
  if (value.is_object()) return fmt::format("o{}", static_cast<const void*>(value.as_object()));
  if (value.is_sequence() && value.as_sequence().kind == JinjaSequence::Kind::kTuple) {
    std::string key;
    append_tuple_key(key, value.as_sequence().items);
    return key;
  }
  throw JinjaFailure(fmt::format("unhashable type: '{}'", value.type_name()));
}

void charge_key(JinjaMeter& meter, const JinjaValue& key) {
  if (key.is_text()) meter.allocate(key.as_text().size());
  if (key.is_sequence()) meter.allocate(dict_key(key).size());
}

void step_for_key(JinjaMeter& meter, const JinjaValue& key) {
  if (key.is_text()) meter.step(key.as_text().size() / 64);
  if (key.is_sequence()) meter.step(kMaxTupleKeyBytes / 64);
}

JinjaValue JinjaValue::marked() const {
  JinjaValue value = *this;
  value.is_markup_ = value.is_text();
  return value;
}

bool equal(const JinjaValue& left, const JinjaValue& right, JinjaMeter& meter) {
  meter.step();
  if (left.is_integral() && right.is_integral()) return left.as_int() == right.as_int();
  if (left.is_number() && right.is_number()) return left.as_float() == right.as_float();
  if (left.is_text() && right.is_text()) {
    meter.step(std::min(left.as_text().size(), right.as_text().size()) / 64);
    return left.as_text() == right.as_text();
  }
  if (left.is_sequence() && right.is_sequence()) {
    if (left.as_sequence().kind != right.as_sequence().kind) return false;
    return &left.as_sequence() == &right.as_sequence() ||
           equal_items(left.as_sequence().items, right.as_sequence().items, meter);
  }
  if (left.is_dict() && right.is_dict()) {
    return &left.as_dict() == &right.as_dict() || equal_dicts(left.as_dict(), right.as_dict(), meter);
  }
  if (left.is_object() && right.is_object()) return left.as_object() == right.as_object();
  return (left.is_none() && right.is_none()) || (left.is_undefined() && right.is_undefined());
}

bool less(const JinjaValue& left, const JinjaValue& right, JinjaMeter& meter) {
  meter.step();
  for (const JinjaValue* side : {&left, &right}) {
    if (side->is_undefined()) throw JinjaFailure(side->undefined_message());
  }
  if (left.is_integral() && right.is_integral()) return left.as_int() < right.as_int();
  if (left.is_number() && right.is_number()) return left.as_float() < right.as_float();
  // UTF-8 sorts like the code points it encodes.
  if (left.is_text() && right.is_text()) {
    meter.step(std::min(left.as_text().size(), right.as_text().size()) / 64);
    return left.as_text() < right.as_text();
  }
  if (left.is_sequence() && right.is_sequence() && left.as_sequence().kind == right.as_sequence().kind &&
      left.as_sequence().kind <= JinjaSequence::Kind::kTuple) {
    const JinjaValues& lefts = left.as_sequence().items;
    const JinjaValues& rights = right.as_sequence().items;
    for (std::size_t i = 0; i < std::min(lefts.size(), rights.size()); ++i) {
      if (!equal(lefts[i], rights[i], meter)) return less(lefts[i], rights[i], meter);
    }
    return lefts.size() < rights.size();
  }
  throw JinjaFailure(fmt::format("'{}' and '{}' cannot be ordered", left.type_name(), right.type_name()));
}

}  // namespace sluice
