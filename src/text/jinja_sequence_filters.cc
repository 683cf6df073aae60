// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "text/jinja_arguments.h"
#include "text/jinja_filters.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/python_text.h"

namespace sluice {
namespace {

using Interpreter = JinjaInterpreter&;
using Input = const JinjaValue&;
using Arguments = JinjaArguments;

// The parts of a text that names attributes.
std::vector<std::string_view> split_names(Interpreter interpreter, const std::string& names,
                                          std::string_view separator) {
  interpreter.meter().allocate(names.size(), sizeof(JinjaValue) + sizeof(std::string));
  return split(names, separator, -1, SplitFrom::kLeft);
}

// "function.name" and "0" as filters take them: a way into a value.
class Path {
 public:
  Path(Interpreter interpreter, const JinjaValue* attribute) {
    if (attribute == nullptr || attribute->is_none()) return;
    if (!attribute->is_text()) {
      parts_.push_back(*attribute);
      return;
    }
    for (const std::string_view part : split_names(interpreter, attribute->as_text(), ".")) {
      const bool number =
          part.size() < 10 && is_all(part, TextClass::kDigit) && part.front() >= '0' && part.front() <= '9';
      parts_.push_back(number ? JinjaValue(std::int64_t{std::stoll(std::string(part))})
                              : JinjaValue(std::string(part)));
    }
  }

  JinjaValue follow(Interpreter interpreter, JinjaValue value, const JinjaValue* otherwise = nullptr) const {
    for (const JinjaValue& part : parts_) {
      value = interpreter.item(value, part);
      if (otherwise != nullptr && value.is_undefined()) value = *otherwise;
    }
    return value;
  }

 private:
  JinjaValues parts_;
};

JinjaValue without_case(Interpreter interpreter, const JinjaValue& value) {
  if (!value.is_text()) return value;
  interpreter.meter().allocate(value.as_text().size());
  interpreter.meter().step(value.as_text().size() / 8);
  return JinjaValue(to_lower(value.as_text()));
}

JinjaValue default_filter(Interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("default", 0, {"default_value", "boolean"}, std::move(arguments));
  if (input.is_undefined() || (bound.truth(1) && !input.truth())) return bound.value(0, JinjaValue(std::string()));
  return input;
}

JinjaValue length_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments none("length", 0, {}, std::move(arguments));
  return JinjaValue(interpreter.length(input));
}

JinjaValue first_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments none("first", 0, {}, std::move(arguments));
  auto* const generator = input.is_object() ? dynamic_cast<JinjaGenerator*>(input.as_object()) : nullptr;
  if (generator != nullptr) {
    if (std::optional<JinjaValue> value = generator->next()) return std::move(*value);
  } else if (input.is_sequence()) {
    // No copy of the list: in a loop over the same list that would be quadratic.
    if (!input.as_sequence().items.empty()) return input.as_sequence().items.front();
  } else {
    const JinjaValues items = interpreter.iterate(input);
    if (!items.empty()) return items.front();
  }
  return JinjaValue::undefined("No first item, sequence was empty.");
}

void require_reversible(Input input) {
  if (input.is_object() || input.is_number() || input.is_none()) {
    throw JinjaFailure(fmt::format("'{}' object is not reversible", input.type_name()));
  }
}

JinjaValue last_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments none("last", 0, {}, std::move(arguments));
  require_reversible(input);
  const JinjaValues copied = input.is_sequence() ? JinjaValues() : interpreter.iterate(input);
  const JinjaValues& items = input.is_sequence() ? input.as_sequence().items : copied;
  return items.empty() ? JinjaValue::undefined("No last item, sequence was empty.") : items.back();
}

JinjaValue list_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments none("list", 0, {}, std::move(arguments));
  return JinjaValue::list(interpreter.iterate(input));
}

JinjaValue reverse_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments none("reverse", 0, {}, std::move(arguments));
  if (input.is_text()) {
    return interpreter.slice(input, JinjaValue(), JinjaValue(), JinjaValue(std::int64_t{-1}));
  }
  JinjaValues items = interpreter.iterate(input);
  std::reverse(items.begin(), items.end());
  return interpreter.generator(std::move(items));
}

JinjaValue items_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments none("items", 0, {}, std::move(arguments));
  if (input.is_undefined()) return interpreter.generator({});
  if (!input.is_dict()) throw JinjaFailure("Can only get item pairs from a mapping.");
  return interpreter.generator(interpreter.iterate(call_jinja_method(interpreter, input, "items", {})));
}

JinjaValue join_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("join", 0, {"d", "attribute"}, std::move(arguments));
  const std::string separator = bound.get(0) == nullptr ? std::string() : interpreter.text(*bound.get(0));
  const Path path(interpreter, bound.get_some(1));
  std::string joined;
  bool first = true;
  for (const JinjaValue& item : interpreter.iterate(input)) {
    interpreter.meter().allocate(separator.size());
    if (!first) joined += separator;
    first = false;
    joined += interpreter.text(path.follow(interpreter, item));
  }
  return JinjaValue(std::move(joined));
}

struct Keyed {
  JinjaValue key;
  JinjaValue item;
};

// Stable in both directions, as Python's sorted() is.
JinjaValues sorted(Interpreter interpreter, std::vector<Keyed> keyed, bool reverse) {
  JinjaMeter& meter = interpreter.meter();
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& left, const Keyed& right) {
    return reverse ? less(right.key, left.key, meter) : less(left.key, right.key, meter);
  });
  JinjaValues items;
  items.reserve(keyed.size());
  for (Keyed& one : keyed) items.push_back(std::move(one.item));
  return items;
}

JinjaValue sort_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("sort", 0, {"reverse", "case_sensitive", "attribute"}, std::move(arguments));
  std::vector<Path> paths;
  const JinjaValue* const attribute = bound.get_some(2);
  if (attribute != nullptr && attribute->is_text()) {
    for (const std::string_view part : split_names(interpreter, attribute->as_text(), ",")) {
      const JinjaValue name{std::string(part)};
      paths.emplace_back(interpreter, &name);
    }
  } else {
    paths.emplace_back(interpreter, attribute);
  }
  std::vector<Keyed> keyed;
  for (JinjaValue& item : interpreter.iterate(input)) {
    JinjaValues keys;
    for (const Path& path : paths) {
      JinjaValue key = path.follow(interpreter, item);
      keys.push_back(bound.truth(1) ? std::move(key) : without_case(interpreter, key));
    }
    keyed.push_back({JinjaValue::list(std::move(keys)), std::move(item)});
  }
  return JinjaValue::list(sorted(interpreter, std::move(keyed), bound.truth(0)));
}

JinjaValue dictsort_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("dictsort", 0, {"case_sensitive", "by", "reverse"}, std::move(arguments));
  const std::string by = bound.text(1, "key");
  if (by != "key" && by != "value") throw JinjaFailure("You can only sort by either \"key\" or \"value\"");
  if (!input.is_dict()) throw JinjaFailure(fmt::format("dictsort needs a dict, got '{}'", input.type_name()));
  std::vector<Keyed> keyed;
  for (const auto& [name, value] : input.as_dict().items()) {
    interpreter.meter().allocate(4 * sizeof(JinjaValue));
    JinjaValue key = by == "key" ? name : value;
    keyed.push_back({bound.truth(0) ? key : without_case(interpreter, key), JinjaValue::tuple({name, value})});
  }
  return JinjaValue::list(sorted(interpreter, std::move(keyed), bound.truth(2)));
}

JinjaValue unique_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("unique", 0, {"case_sensitive", "attribute"}, std::move(arguments));
  const Path path(interpreter, bound.get_some(1));
  std::unordered_set<std::string> seen;
  JinjaValues kept;
  for (JinjaValue& item : interpreter.iterate(input)) {
    JinjaValue key = path.follow(interpreter, item);
    if (!bound.truth(0)) key = without_case(interpreter, key);
    std::string name = dict_key(key);
    interpreter.meter().allocate(name.size());
    if (seen.insert(std::move(name)).second) kept.push_back(std::move(item));
  }
  return interpreter.generator(std::move(kept));
}

template <bool kMax>
JinjaValue extreme_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound(kMax ? "max" : "min", 0, {"case_sensitive", "attribute"}, std::move(arguments));
  const Path path(interpreter, bound.get_some(1));
  std::optional<Keyed> best;
  for (JinjaValue& item : interpreter.iterate(input)) {
    JinjaValue key = path.follow(interpreter, item);
    if (!bound.truth(0)) key = without_case(interpreter, key);
    const bool better =
        !best || (kMax ? less(best->key, key, interpreter.meter()) : less(key, best->key, interpreter.meter()));
    if (better) best = Keyed{std::move(key), std::move(item)};
  }
  return best ? best->item : JinjaValue::undefined("No aggregated item, sequence was empty.");
}

JinjaValue sum_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("sum", 0, {"attribute", "start"}, std::move(arguments));
  const Path path(interpreter, bound.get_some(0));
  JinjaValue total = bound.value(1, JinjaValue(std::int64_t{0}));
  if (total.is_text()) throw JinjaFailure("sum can't sum strings");
  for (const JinjaValue& item : interpreter.iterate(input)) {
    total = apply_operator(interpreter, "+", total, path.follow(interpreter, item));
  }
  return total;
}

JinjaValue map_filter(Interpreter interpreter, Input input, Arguments arguments) {
  if (!input.truth()) return interpreter.generator({});
  JinjaValues mapped;
  if (arguments.positional.empty() && arguments.has("attribute")) {
    const BoundJinjaArguments bound("map", 0, {"attribute", "default"}, std::move(arguments));
    const Path path(interpreter, bound.get_some(0));
    for (JinjaValue& item : interpreter.iterate(input)) {
      mapped.push_back(path.follow(interpreter, std::move(item), bound.get_some(1)));
    }
    return interpreter.generator(std::move(mapped));
  }
  if (arguments.positional.empty() || !arguments.positional.front().is_text()) {
    throw JinjaFailure("map requires a filter argument");
  }
  const std::string name = arguments.positional.front().as_text();
  arguments.positional.erase(arguments.positional.begin());
  for (const JinjaValue& item : interpreter.iterate(input)) {
    mapped.push_back(interpreter.filter(name, item, arguments));
  }
  return interpreter.generator(std::move(mapped));
}

template <bool kKeep, bool kByAttribute>
JinjaValue select_filter(Interpreter interpreter, Input input, Arguments arguments) {
  if (!input.truth()) return interpreter.generator({});
  Path path(interpreter, nullptr);
  if (kByAttribute) {
    if (arguments.positional.empty()) throw JinjaFailure("Missing parameter for attribute name");
    path = Path(interpreter, &arguments.positional.front());
    arguments.positional.erase(arguments.positional.begin());
  }
  std::optional<std::string> test;
  if (!arguments.positional.empty()) {
    if (!arguments.positional.front().is_text()) throw JinjaFailure("the name of a test must be a string");
    test = arguments.positional.front().as_text();
    arguments.positional.erase(arguments.positional.begin());
  }
  JinjaValues kept;
  for (JinjaValue& item : interpreter.iterate(input)) {
    const JinjaValue value = path.follow(interpreter, item);
    const bool passes = test ? interpreter.test(*test, value, arguments) : value.truth();
    if (passes == kKeep) kept.push_back(std::move(item));
  }
  return interpreter.generator(std::move(kept));
}

JinjaValue batch_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("batch", 1, {"linecount", "fill_with"}, std::move(arguments));
  const std::int64_t size = bound.integer(0, 1);
  JinjaValues batches;
  JinjaValues batch;
  for (JinjaValue& item : interpreter.iterate(input)) {
    if (static_cast<std::int64_t>(batch.size()) == size) batches.push_back(JinjaValue::list(std::exchange(batch, {})));
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) {
    if (const JinjaValue* const fill = bound.get_some(1)) {
      const std::int64_t missing = size - static_cast<std::int64_t>(batch.size());
      if (missing > 0) interpreter.meter().allocate(static_cast<std::uint64_t>(missing), sizeof(JinjaValue));
      for (std::int64_t i = 0; i < missing; ++i) batch.push_back(*fill);
    }
    batches.push_back(JinjaValue::list(std::move(batch)));
  }
  return interpreter.generator(std::move(batches));
}

JinjaValue slice_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("slice", 1, {"slices", "fill_with"}, std::move(arguments));
  const std::int64_t num_slices = bound.integer(0, 1);
  if (num_slices == 0) throw JinjaFailure("division by zero");
  const JinjaValues items = interpreter.iterate(input);
  JinjaValues slices;
  const std::int64_t count = std::max<std::int64_t>(num_slices, 0);
  interpreter.meter().allocate(static_cast<std::uint64_t>(std::min<std::int64_t>(count, INT32_MAX)) * 64);
  const auto size = static_cast<std::int64_t>(items.size());
  const std::int64_t num_longer = count == 0 ? 0 : size % count;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t end = at + size / count + (i < num_longer ? 1 : 0);
    JinjaValues slice(items.begin() + at, items.begin() + end);
    if (bound.get_some(1) != nullptr && i >= num_longer) slice.push_back(*bound.get(1));
    slices.push_back(JinjaValue::list(std::move(slice)));
    at = end;
  }
  return interpreter.generator(std::move(slices));
}

JinjaValue attr_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("attr", 1, {"name"}, std::move(arguments));
  const std::string name = bound.text(0);
  // Only attributes proper: the keys of a dict do not count.
  if (input.is_dict() && !has_jinja_method(input, name)) {
    return JinjaValue::undefined(fmt::format("'dict object' has no attribute '{}'", name));
  }
  return interpreter.attribute(input, name);
}

}  // namespace

JinjaFilter find_jinja_sequence_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, JinjaFilter> kFilters = {
      {"default", default_filter},
      {"d", default_filter},
      {"length", length_filter},
      {"count", length_filter},
      {"first", first_filter},
      {"last", last_filter},
      {"list", list_filter},
      {"reverse", reverse_filter},
      {"items", items_filter},
      {"join", join_filter},
      {"sort", sort_filter},
      {"dictsort", dictsort_filter},
      {"unique", unique_filter},
      {"min", extreme_filter<false>},
      {"max", extreme_filter<true>},
      {"sum", sum_filter},
      {"map", map_filter},
      {"select", select_filter<true, false>},
      {"reject", select_filter<false, false>},
      {"selectattr", select_filter<true, true>},
      {"rejectattr", select_filter<false, true>},
      {"batch", batch_filter},
      {"slice", slice_filter},
      {"attr", attr_filter},
  };
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

}  // namespace sluice
