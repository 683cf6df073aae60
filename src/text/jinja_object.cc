// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_object.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/jinja_methods.h"

namespace sluice {

std::optional<JinjaValue> JinjaArguments::take(std::string_view name) {
  const auto found = std::find_if(named.begin(), named.end(), [&](const auto& item) { return item.first == name; });
  if (found == named.end()) return std::nullopt;
  // In a vector, because gcc 12 takes a variant that is moved out of here for uninitialised.
  const JinjaValues taken{std::move(found->second)};
  named.erase(found);
  return taken.front();
}

bool JinjaArguments::has(std::string_view name) const {
  return std::any_of(named.begin(), named.end(), [&](const auto& item) { return item.first == name; });
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): those that can be called take the arguments over
JinjaValue JinjaObject::call(JinjaInterpreter& /*interpreter*/, JinjaArguments /*arguments*/) {
  throw JinjaFailure(fmt::format("'{}' object is not callable", type_name()));
}

std::optional<JinjaValue> JinjaGenerator::next() {
  if (at_ == items_.size()) return std::nullopt;
  return items_[at_++];
}

std::optional<JinjaValues> JinjaGenerator::consume() {
  items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(std::exchange(at_, 0)));
  return std::exchange(items_, {});
}

std::optional<JinjaValue> JinjaNamespace::attribute(std::string_view name) {
  for (const auto& [known, value] : items_) {
    if (known == name) return value;
  }
  return std::nullopt;
}

void JinjaNamespace::assign(std::string_view name, JinjaValue value) {
  for (auto& [known, place] : items_) {
    if (known == name) {
      place = std::move(value);
      return;
    }
  }
  items_.emplace_back(name, std::move(value));
}

JinjaValue JinjaMethod::call(JinjaInterpreter& interpreter, JinjaArguments arguments) {
  return call_jinja_method(interpreter, owner_, name_, std::move(arguments));
}

JinjaValue JinjaLoop::neighbour(std::int64_t index, std::string_view missing) const {
  if (index < 0 || index >= static_cast<std::int64_t>(items_.size())) {
    return JinjaValue::undefined(fmt::format("there is no {} item", missing));
  }
  return items_[static_cast<std::size_t>(index)];
}

std::optional<JinjaValue> JinjaLoop::attribute(std::string_view name) {
  if (name == "index") return JinjaValue(index_ + 1);
  if (name == "index0") return JinjaValue(index_);
  if (name == "revindex") return JinjaValue(num_items_ - index_);
  if (name == "revindex0") return JinjaValue(num_items_ - index_ - 1);
  if (name == "first") return JinjaValue(index_ == 0);
  if (name == "last") return JinjaValue(index_ + 1 == num_items_);
  if (name == "length") return JinjaValue(num_items_);
  if (name == "depth") return JinjaValue(std::int64_t{1});
  if (name == "depth0") return JinjaValue(std::int64_t{0});
  if (name == "previtem") return neighbour(index_ - 1, "previous");
  if (name == "nextitem") return neighbour(index_ + 1, "next");
  return std::nullopt;
}

JinjaValue JinjaLoop::cycle(const JinjaValues& values) const {
  if (values.empty()) throw JinjaFailure("no items for cycling given");
  return values[static_cast<std::size_t>(std::max<std::int64_t>(index_, 0)) % values.size()];
}

JinjaValue JinjaLoop::changed(JinjaValues values, JinjaMeter& meter) {
  JinjaValue now = JinjaValue::tuple(std::move(values));
  if (equal(last_changed_, now, meter)) return JinjaValue(false);
  last_changed_ = std::move(now);
  return JinjaValue(true);
}

std::optional<JinjaValue> JinjaCycler::attribute(std::string_view name) {
  if (name == "current") return items_[at_];
  return std::nullopt;
}

const JinjaValue& JinjaCycler::next() {
  const JinjaValue& value = items_[at_];
  at_ = (at_ + 1) % items_.size();
  return value;
}

JinjaValue JinjaJoiner::call(JinjaInterpreter& /*interpreter*/, JinjaArguments /*arguments*/) {
  if (std::exchange(used_, true)) return separator_;
  return JinjaValue(std::string());
}

}  // namespace sluice
