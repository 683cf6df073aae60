// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_globals.h"

#include <ctime>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "text/jinja_arguments.h"
#include "text/jinja_interpreter.h"

namespace sluice {
namespace {

// Jinja's sandbox allows no longer ones.
constexpr std::uint64_t kMaxRange = 100'000;

// The pairs that dict(...) and namespace(...) take: a dict or pairs, then named arguments.
JinjaPairs pairs_of(JinjaInterpreter& interpreter, std::string_view what, JinjaArguments arguments) {
  JinjaPairs pairs;
  if (arguments.positional.size() > 1) throw JinjaFailure(fmt::format("{} takes one positional argument", what));
  if (!arguments.positional.empty()) {
    const JinjaValue& first = arguments.positional.front();
    if (first.is_dict()) {
      interpreter.meter().allocate(first.as_dict().items().size() * 2 * sizeof(JinjaValue));
      pairs = first.as_dict().items();
    } else {
      for (const JinjaValue& item : interpreter.iterate(first)) {
        JinjaValues pair = interpreter.iterate(item);
        if (pair.size() != 2) throw JinjaFailure(fmt::format("{} needs pairs", what));
        pairs.emplace_back(std::move(pair[0]), std::move(pair[1]));
      }
    }
  }
  for (auto& [name, value] : arguments.named) pairs.emplace_back(JinjaValue(name), std::move(value));
  for (const auto& [key, value] : pairs) charge_key(interpreter.meter(), key);
  return pairs;
}

JinjaValue make_dict(JinjaInterpreter& interpreter, JinjaArguments arguments) {
  return JinjaValue::dict(pairs_of(interpreter, "dict()", std::move(arguments)));
}

JinjaValue make_namespace(JinjaInterpreter& interpreter, JinjaArguments arguments) {
  auto space = std::make_unique<JinjaNamespace>();
  for (auto& [key, value] : pairs_of(interpreter, "namespace()", std::move(arguments))) {
    if (!key.is_text()) throw JinjaFailure("a namespace's names must be strings");
    interpreter.meter().step(space->num_attributes() / 8);
    space->assign(key.as_text(), std::move(value));
  }
  return JinjaValue(interpreter.own(std::move(space)));
}

JinjaValue make_range(JinjaInterpreter& interpreter, JinjaArguments arguments) {
  const std::size_t num_given = arguments.positional.size();
  const BoundJinjaArguments bound("range()", 1, {"start", "stop", "step"}, std::move(arguments));
  JinjaSequence range;
  range.kind = JinjaSequence::Kind::kRange;
  range.start = num_given > 1 ? bound.integer(0, 0) : 0;
  range.stop = bound.integer(num_given > 1 ? 1 : 0, 0);
  range.step = bound.integer(2, 1);
  if (range.step == 0) throw JinjaFailure("range() arg 3 must not be zero");
  const bool up = range.step > 0;
  std::uint64_t count = 0;
  if (up ? range.start < range.stop : range.start > range.stop) {
    const std::uint64_t distance =
        up ? static_cast<std::uint64_t>(range.stop) - static_cast<std::uint64_t>(range.start)
           : static_cast<std::uint64_t>(range.start) - static_cast<std::uint64_t>(range.stop);
    const std::uint64_t stride =
        up ? static_cast<std::uint64_t>(range.step) : std::uint64_t{0} - static_cast<std::uint64_t>(range.step);
    count = (distance - 1) / stride + 1;
  }
  if (count > kMaxRange) throw JinjaFailure(fmt::format("a range is longer than {} items", kMaxRange));
  interpreter.meter().allocate(count * sizeof(JinjaValue));
  std::int64_t at = range.start;
  for (std::uint64_t i = 0; i < count; ++i) {
    range.items.emplace_back(at);
    if (i + 1 < count) at += range.step;
  }
  return JinjaValue(std::make_shared<const JinjaSequence>(std::move(range)));
}

JinjaValue raise_exception(JinjaInterpreter& interpreter, JinjaArguments arguments) {
  const BoundJinjaArguments bound("raise_exception()", 1, {"message"}, std::move(arguments));
  throw JinjaRefusal(interpreter.text(*bound.get(0)));
}

JinjaValue strftime_now(JinjaInterpreter& interpreter, JinjaArguments arguments) {
  const std::string format = BoundJinjaArguments("strftime_now()", 1, {"format"}, std::move(arguments)).text(0);
  if (format.empty()) return JinjaValue(std::string());
  const std::time_t now = interpreter.unix_time_s();
  std::tm parts{};
  localtime_r(&now, &parts);
  // The longest that a directive gives is a few dozen bytes; a width such as %999d could ask for more.
  constexpr std::size_t kMostOfALetter = 32;
  interpreter.meter().allocate(format.size() + 2, kMostOfALetter);
  std::string text((format.size() + 2) * kMostOfALetter, '\0');
  const std::size_t size = std::strftime(text.data(), text.size(), format.c_str(), &parts);
  text.resize(size);
  return JinjaValue(std::move(text));
}

JinjaValue make_cycler(JinjaInterpreter& interpreter, JinjaArguments arguments) {
  if (arguments.positional.empty()) throw JinjaFailure("at least one item has to be provided");
  return JinjaValue(interpreter.own(std::make_unique<JinjaCycler>(std::move(arguments.positional))));
}

JinjaValue make_joiner(JinjaInterpreter& interpreter, JinjaArguments arguments) {
  const BoundJinjaArguments bound("joiner()", 0, {"sep"}, std::move(arguments));
  return JinjaValue(interpreter.own(std::make_unique<JinjaJoiner>(bound.value(0, JinjaValue(std::string(", "))))));
}

}  // namespace

JinjaFunction::Body find_jinja_global(std::string_view name) {
  static const std::unordered_map<std::string_view, JinjaFunction::Body> kGlobals = {
      {"dict", make_dict},
      {"namespace", make_namespace},
      {"range", make_range},
      {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
      {"cycler", make_cycler},
      {"joiner", make_joiner},
  };
  const auto found = kGlobals.find(name);
  return found == kGlobals.end() ? nullptr : found->second;
}

}  // namespace sluice
