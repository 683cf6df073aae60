// SPDX-License-Identifier: Apache-2.0
// The interpreter's way into values: attributes, items, slices, iteration.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "text/jinja_interpreter.h"
#include "text/jinja_methods.h"
#include "text/jinja_print.h"
#include "text/python_text.h"

namespace sluice {
namespace {

std::string object_name(const JinjaValue& object) {
  return object.is_none() ? std::string("None") : fmt::format("{} object", object.type_name());
}

// In a message; a name may be as long as a text.
std::string_view shortened(std::string_view name) {
  std::size_t size = std::min<std::size_t>(name.size(), 256);
  while (size < name.size() && (static_cast<unsigned char>(name[size]) & 0xC0U) == 0x80U) --size;
  return name.substr(0, size);
}

JinjaValue no_attribute(const JinjaValue& object, std::string_view name) {
  return JinjaValue::undefined(fmt::format("'{}' has no attribute '{}'", object_name(object), shortened(name)));
}

void require_defined(const JinjaValue& value) {
  if (value.is_undefined()) throw JinjaFailure(value.undefined_message());
}

std::optional<std::size_t> checked_index(std::int64_t index, std::size_t size) {
  if (index < 0) index += static_cast<std::int64_t>(size);
  if (index < 0 || index >= static_cast<std::int64_t>(size)) return std::nullopt;
  return static_cast<std::size_t>(index);
}

struct SliceBounds {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::size_t count = 0;
};

// What Python's slice.indices() says.
SliceBounds slice_bounds(const JinjaValue& start, const JinjaValue& stop, const JinjaValue& step, std::size_t size) {
  const auto number = [](const JinjaValue& value, std::int64_t otherwise) {
    require_defined(value);
    if (value.is_none()) return otherwise;
    if (!value.is_integral()) throw JinjaFailure("slice indices must be integers or None");
    return value.as_int();
  };
  const auto length = static_cast<std::int64_t>(size);
  SliceBounds bounds;
  bounds.step = number(step, 1);
  if (bounds.step == 0) throw JinjaFailure("slice step cannot be zero");
  // Steps beyond the length all take the first item only; this also keeps the sums below in range.
  bounds.step = std::clamp<std::int64_t>(bounds.step, -length - 1, length + 1);
  const bool forward = bounds.step > 0;
  const std::int64_t lowest = forward ? 0 : -1;
  const std::int64_t highest = forward ? length : length - 1;
  const auto place = [&](const JinjaValue& value, std::int64_t otherwise) {
    std::int64_t at = number(value, otherwise);
    if (value.is_none()) return at;
    if (at < 0) at += length;
    return std::clamp(at, lowest, highest);
  };
  bounds.start = place(start, forward ? lowest : highest);
  const std::int64_t end = place(stop, forward ? highest : lowest);
  const std::int64_t distance = forward ? end - bounds.start : bounds.start - end;
  const std::int64_t stride = forward ? bounds.step : -bounds.step;
  if (distance > 0) bounds.count = static_cast<std::size_t>((distance + stride - 1) / stride);
  return bounds;
}

}  // namespace

JinjaValue JinjaInterpreter::generator(JinjaValues items) {
  meter_.allocate(items.size() * sizeof(JinjaValue));
  return JinjaValue(own(std::make_unique<JinjaGenerator>(std::move(items))));
}

JinjaValue JinjaInterpreter::attribute(const JinjaValue& object, std::string_view name) {
  require_defined(object);
  meter_.step(name.size() / 64);
  if (is_forbidden_attribute(object, name)) {
    return JinjaValue::undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe", name, object.type_name()));
  }
  if (has_jinja_method(object, name)) {
    return JinjaValue(own(std::make_unique<JinjaMethod>(object, std::string(name))));
  }
  if (object.is_object()) {
    meter_.step(object.as_object()->num_attributes() / 8);
    if (std::optional<JinjaValue> value = object.as_object()->attribute(name)) return std::move(*value);
  }
  if (object.is_dict()) {
    if (const JinjaValue* const value = object.as_dict().find(name)) return *value;
  }
  return no_attribute(object, name);
}

JinjaValue JinjaInterpreter::item(const JinjaValue& object, const JinjaValue& key) {
  require_defined(object);
  step_for_key(meter_, key);
  if (object.is_dict()) {
    // What cannot be a key is in no dict.
    if (key.is_sequence() && key.as_sequence().kind != JinjaSequence::Kind::kTuple) return no_element(object, key);
    if (key.is_dict()) return no_element(object, key);
    if (const JinjaValue* const value = object.as_dict().find(key)) return *value;
  } else if (key.is_integral() && object.is_sequence() && object.as_sequence().subscriptable()) {
    const JinjaValues& items = object.as_sequence().items;
    if (const auto index = checked_index(key.as_int(), items.size())) return items[*index];
  } else if (key.is_integral() && object.is_text()) {
    const std::string& whole = object.as_text();
    meter_.step(whole.size() / 64);
    if (const auto index = checked_index(key.as_int(), num_code_points(whole))) {
      return slice(object, JinjaValue(static_cast<std::int64_t>(*index)),
                   JinjaValue(static_cast<std::int64_t>(*index) + 1), JinjaValue());
    }
  }
  if (key.is_text()) return attribute(object, key.as_text());
  return no_element(object, key);
}

JinjaValue JinjaInterpreter::no_element(const JinjaValue& object, const JinjaValue& key) {
  return JinjaValue::undefined(fmt::format("{} has no element {}", object_name(object), to_repr(key, meter_)));
}

JinjaValue JinjaInterpreter::slice(const JinjaValue& object, const JinjaValue& start, const JinjaValue& stop,
                                   const JinjaValue& step) {
  require_defined(object);
  if (object.is_text()) {
    const std::string& whole = object.as_text();
    meter_.allocate(whole.size());
    charge_offsets(meter_, whole);
    const std::vector<std::size_t> offsets = code_point_offsets(whole);
    const SliceBounds bounds = slice_bounds(start, stop, step, offsets.size() - 1);
    std::string part;
    for (std::size_t i = 0; i < bounds.count; ++i) {
      const auto at = static_cast<std::size_t>(bounds.start + static_cast<std::int64_t>(i) * bounds.step);
      part += std::string_view(whole).substr(offsets[at], offsets[at + 1] - offsets[at]);
    }
    const JinjaValue sliced(std::move(part));
    return object.is_markup() ? sliced.marked() : sliced;
  }
  if (!object.is_sequence() || !object.as_sequence().subscriptable()) {
    throw JinjaFailure(fmt::format("'{}' object cannot be sliced", object.type_name()));
  }
  const JinjaSequence& sequence = object.as_sequence();
  const SliceBounds bounds = slice_bounds(start, stop, step, sequence.items.size());
  meter_.allocate(bounds.count * sizeof(JinjaValue));
  JinjaValues items;
  items.reserve(bounds.count);
  for (std::size_t i = 0; i < bounds.count; ++i) {
    items.push_back(
        sequence.items[static_cast<std::size_t>(bounds.start + static_cast<std::int64_t>(i) * bounds.step)]);
  }
  if (sequence.kind != JinjaSequence::Kind::kRange) return make_sequence(sequence.kind, std::move(items));
  JinjaSequence part;
  part.kind = sequence.kind;
  part.items = std::move(items);
  // Its items are there; how it prints may wrap around beyond 64 bits.
  const auto wrapped = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  const auto step_of = static_cast<std::uint64_t>(sequence.step);
  part.step = wrapped(step_of * static_cast<std::uint64_t>(bounds.step));
  part.start = wrapped(static_cast<std::uint64_t>(sequence.start) + static_cast<std::uint64_t>(bounds.start) * step_of);
  part.stop = wrapped(static_cast<std::uint64_t>(part.start) + bounds.count * static_cast<std::uint64_t>(part.step));
  return JinjaValue(std::make_shared<const JinjaSequence>(std::move(part)));
}

JinjaValues JinjaInterpreter::iterate(const JinjaValue& value) {
  if (value.is_undefined()) return {};
  if (value.is_sequence()) {
    meter_.allocate(value.as_sequence().items.size() * sizeof(JinjaValue));
    return value.as_sequence().items;
  }
  JinjaValues items;
  if (value.is_dict()) {
    meter_.allocate(value.as_dict().items().size() * sizeof(JinjaValue));
    for (const auto& pair : value.as_dict().items()) items.push_back(pair.first);
    return items;
  }
  if (value.is_text()) {
    const std::string& whole = value.as_text();
    meter_.allocate(whole.size() * (sizeof(JinjaValue) + 64));
    const std::vector<std::size_t> offsets = code_point_offsets(whole);
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      items.emplace_back(whole.substr(offsets[i], offsets[i + 1] - offsets[i]));
    }
    return items;
  }
  if (value.is_object()) {
    if (std::optional<JinjaValues> rest = value.as_object()->consume()) return std::move(*rest);
  }
  throw JinjaFailure(fmt::format("'{}' object is not iterable", value.type_name()));
}

std::int64_t JinjaInterpreter::length(const JinjaValue& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) {
    meter_.step(value.as_text().size() / 64);
    return static_cast<std::int64_t>(num_code_points(value.as_text()));
  }
  if (value.is_sequence()) return static_cast<std::int64_t>(value.as_sequence().items.size());
  if (value.is_dict()) return static_cast<std::int64_t>(value.as_dict().items().size());
  throw JinjaFailure(fmt::format("object of type '{}' has no len()", value.type_name()));
}

bool JinjaInterpreter::contains(const JinjaValue& container, const JinjaValue& item) {
  if (container.is_dict()) {
    step_for_key(meter_, item);
    return container.as_dict().find(item) != nullptr;
  }
  if (container.is_text()) {
    require_defined(item);
    if (!item.is_text()) {
      throw JinjaFailure(fmt::format("'in <string>' requires string as left operand, not {}", item.type_name()));
    }
    meter_.step(container.as_text().size() / 64);
    return find_text(container.as_text(), item.as_text()) != std::string_view::npos;
  }
  if (!container.is_undefined() && !container.is_sequence() && !container.is_object()) {
    throw JinjaFailure(fmt::format("argument of type '{}' is not iterable", container.type_name()));
  }
  const auto is_item = [&](const JinjaValue& candidate) { return equal(candidate, item, meter_); };
  if (container.is_sequence()) {
    const JinjaValues& items = container.as_sequence().items;
    return std::any_of(items.begin(), items.end(), is_item);
  }
  const JinjaValues items = iterate(container);
  return std::any_of(items.begin(), items.end(), is_item);
}

}  // namespace sluice
