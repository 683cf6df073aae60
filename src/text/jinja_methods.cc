// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_methods.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>

#include "text/jinja_filters.h"
#include "text/jinja_text_methods.h"

namespace sluice {
namespace {

using SequenceKind = JinjaSequence::Kind;

JinjaValue view_of(JinjaInterpreter& interpreter, const JinjaValue& owner, SequenceKind kind) {
  JinjaValues items;
  interpreter.meter().allocate(owner.as_dict().items().size() * 3 * sizeof(JinjaValue));
  for (const auto& [key, value] : owner.as_dict().items()) {
    items.push_back(kind == SequenceKind::kKeys     ? key
                    : kind == SequenceKind::kValues ? value
                                                    : JinjaValue::tuple({key, value}));
  }
  return make_sequence(kind, std::move(items));
}

JinjaValue call_dict_method(JinjaInterpreter& interpreter, const JinjaValue& owner, std::string_view name,
                            JinjaArguments arguments) {
  if (name == "get") {
    const BoundJinjaArguments bound("get()", 1, {"key", "default"}, std::move(arguments));
    step_for_key(interpreter.meter(), *bound.get(0));
    const JinjaValue* const found = owner.as_dict().find(*bound.get(0));
    return found != nullptr ? *found : bound.value(1);
  }
  const BoundJinjaArguments none(name, 0, {}, std::move(arguments));
  if (name == "copy") return owner;
  return view_of(interpreter, owner,
                 name == "keys"     ? SequenceKind::kKeys
                 : name == "values" ? SequenceKind::kValues
                                    : SequenceKind::kItems);
}

JinjaValue call_list_method(JinjaInterpreter& interpreter, const JinjaValue& owner, std::string_view name,
                            JinjaArguments arguments) {
  const JinjaValues& items = owner.as_sequence().items;
  if (name == "copy") return owner;
  const BoundJinjaArguments bound(name, 1, {"value"}, std::move(arguments));
  std::int64_t count = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!equal(items[i], *bound.get(0), interpreter.meter())) continue;
    if (name == "index") return JinjaValue(static_cast<std::int64_t>(i));
    ++count;
  }
  if (name == "index") throw JinjaFailure("index() was asked for a value that is not in the list");
  return JinjaValue(count);
}

bool is_any(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <typename Object>
Object* object_as(const JinjaValue& value) {
  return value.is_object() ? dynamic_cast<Object*>(value.as_object()) : nullptr;
}

}  // namespace

bool is_forbidden_attribute(const JinjaValue& owner, std::string_view name) {
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) {
    return !owner.is_dict() || owner.as_dict().find(name) == nullptr;
  }
  if (owner.is_dict()) return is_any(name, {"clear", "pop", "popitem", "setdefault", "update"});
  if (owner.is_sequence() && owner.as_sequence().kind == SequenceKind::kList) {
    return is_any(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  }
  return false;
}

bool has_jinja_method(const JinjaValue& owner, std::string_view name) {
  if (owner.is_text()) return has_text_method(name);
  if (owner.is_dict()) return is_any(name, {"get", "items", "keys", "values", "copy"});
  if (owner.is_sequence()) {
    if (!owner.as_sequence().subscriptable()) return false;
    return is_any(name, {"count", "index"}) || (name == "copy" && owner.as_sequence().kind == SequenceKind::kList);
  }
  if (object_as<JinjaLoop>(owner) != nullptr) return name == "cycle" || name == "changed";
  if (object_as<JinjaCycler>(owner) != nullptr) return name == "next" || name == "reset";
  return false;
}

namespace {

JinjaValue marked_parts(const JinjaValue& parts) {
  if (!parts.is_sequence()) return parts.marked();
  JinjaValues items;
  for (const JinjaValue& item : parts.as_sequence().items) items.push_back(item.marked());
  return parts.as_sequence().kind == SequenceKind::kTuple ? JinjaValue::tuple(std::move(items))
                                                          : JinjaValue::list(std::move(items));
}

// What a method of marked text puts into it is escaped, and what it gives is marked.
JinjaValue call_markup_method(JinjaInterpreter& interpreter, const JinjaValue& owner, std::string_view name,
                              JinjaArguments arguments) {
  const auto escape = [&interpreter](JinjaValue& value) {
    if (value.is_text()) value = escaped_markup(interpreter, value);
  };
  if (name == "replace" && arguments.positional.size() > 1) escape(arguments.positional[1]);
  if (name == "join" && !arguments.positional.empty()) {
    JinjaValues items = interpreter.iterate(arguments.positional.front());
    for (JinjaValue& item : items) escape(item);
    arguments.positional.front() = JinjaValue::list(std::move(items));
  }
  if (name == "format") {
    for (JinjaValue& value : arguments.positional) escape(value);
    for (auto& [key, value] : arguments.named) escape(value);
  }
  return marked_parts(call_text_method(interpreter, owner.as_text(), name, std::move(arguments)));
}

}  // namespace

JinjaValue call_jinja_method(JinjaInterpreter& interpreter, const JinjaValue& owner, std::string_view name,
                             JinjaArguments arguments) {
  if (owner.is_markup()) return call_markup_method(interpreter, owner, name, std::move(arguments));
  if (owner.is_text()) return call_text_method(interpreter, owner.as_text(), name, std::move(arguments));
  if (owner.is_dict()) return call_dict_method(interpreter, owner, name, std::move(arguments));
  if (owner.is_sequence()) return call_list_method(interpreter, owner, name, std::move(arguments));
  if (auto* const loop = object_as<JinjaLoop>(owner)) {
    if (name == "cycle") return loop->cycle(arguments.positional);
    return loop->changed(std::move(arguments.positional), interpreter.meter());
  }
  auto* const cycler = object_as<JinjaCycler>(owner);
  if (cycler == nullptr) throw JinjaFailure(fmt::format("'{}' has no method '{}'", owner.type_name(), name));
  if (name == "next") return cycler->next();
  cycler->reset();
  return {};
}

}  // namespace sluice
