// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_text_methods.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "text/jinja_format.h"
#include "text/python_text.h"

namespace sluice {
namespace {

struct Call {
  JinjaInterpreter& interpreter;
  const std::string& text;
  std::string_view name;
  JinjaArguments arguments;

  BoundJinjaArguments bind(std::size_t num_required, std::initializer_list<std::string_view> names) {
    return {fmt::format("{}()", name), num_required, names, std::move(arguments)};
  }
};
using Method = JinjaValue (*)(Call&);

JinjaValue list_of(JinjaInterpreter& interpreter, const std::vector<std::string_view>& parts) {
  JinjaValues items;
  for (const std::string_view part : parts) {
    interpreter.meter().allocate(part.size() + sizeof(JinjaValue) + 48);
    items.emplace_back(std::string(part));
  }
  return JinjaValue::list(std::move(items));
}

JinjaValue strip_method(Call& call) {
  const BoundJinjaArguments bound = call.bind(0, {"chars"});
  const TextSides sides = call.name == "strip"    ? TextSides::kBoth
                          : call.name == "lstrip" ? TextSides::kLeft
                                                  : TextSides::kRight;
  const std::string chars = bound.get_some(0) != nullptr ? bound.text(0) : std::string();
  call.interpreter.meter().step(chars.size() * 8);
  const auto given = bound.get_some(0) != nullptr ? std::optional<std::string_view>(chars) : std::nullopt;
  return JinjaValue(std::string(strip(call.text, given, sides)));
}

std::uint64_t count_of(std::string_view text, std::string_view wanted) {
  std::uint64_t count = 0;
  for (std::size_t found = 0; (found = find_text(text, wanted)) != std::string_view::npos; ++count) {
    text.remove_prefix(found + wanted.size());
  }
  return count;
}

JinjaValue split_method(Call& call) {
  const SplitFrom from = call.name == "split" ? SplitFrom::kLeft : SplitFrom::kRight;
  const BoundJinjaArguments bound = call.bind(0, {"sep", "maxsplit"});
  const std::int64_t max_splits = bound.integer(1, -1);
  if (bound.get_some(0) == nullptr) {
    charge_offsets(call.interpreter.meter(), call.text);  // there may be half as many parts, of 16 bytes each
    return list_of(call.interpreter, split_whitespace(call.text, max_splits, from));
  }
  const std::string separator = bound.text(0);
  if (separator.empty()) throw JinjaFailure("empty separator");
  call.interpreter.meter().allocate(count_of(call.text, separator) * sizeof(std::string_view));
  return list_of(call.interpreter, split(call.text, separator, max_splits, from));
}

JinjaValue partition_method(Call& call) {
  const std::string separator = call.bind(1, {"sep"}).text(0);
  if (separator.empty()) throw JinjaFailure("empty separator");
  const bool from_left = call.name == "partition";
  const std::size_t at = from_left ? find_text(call.text, separator) : find_last_text(call.text, separator);
  if (at == std::string::npos) {
    const JinjaValue whole(call.text);
    const JinjaValue nothing{std::string()};
    return from_left ? JinjaValue::tuple({whole, nothing, nothing}) : JinjaValue::tuple({nothing, nothing, whole});
  }
  return JinjaValue::tuple({JinjaValue(call.text.substr(0, at)), JinjaValue(separator),
                            JinjaValue(call.text.substr(at + separator.size()))});
}

JinjaValue split_lines_method(Call& call) {
  const BoundJinjaArguments bound = call.bind(0, {"keepends"});
  call.interpreter.meter().allocate(most_lines(call.text), sizeof(std::string_view));
  return list_of(call.interpreter, split_lines(call.text, bound.truth(0) ? LineEnds::kKeep : LineEnds::kDrop));
}

JinjaValue case_method(Call& call) {
  call.bind(0, {});
  call.interpreter.meter().allocate(call.text.size() * 2);
  if (call.name == "upper") return JinjaValue(to_upper(call.text));
  if (call.name == "lower") return JinjaValue(to_lower(call.text));
  if (call.name == "casefold") return JinjaValue(to_casefolded(call.text));
  if (call.name == "title") return JinjaValue(to_title(call.text));
  if (call.name == "swapcase") return JinjaValue(to_swapped_case(call.text));
  return JinjaValue(to_capitalized(call.text));
}

JinjaValue class_method(Call& call) {
  call.bind(0, {});
  const TextClass wanted = call.name == "isalpha"     ? TextClass::kAlpha
                           : call.name == "isalnum"   ? TextClass::kAlphanumeric
                           : call.name == "isspace"   ? TextClass::kSpace
                           : call.name == "isupper"   ? TextClass::kUpper
                           : call.name == "islower"   ? TextClass::kLower
                           : call.name == "isdecimal" ? TextClass::kDecimal
                           : call.name == "isnumeric" ? TextClass::kNumeric
                                                      : TextClass::kDigit;
  return JinjaValue(is_all(call.text, wanted));
}

// The part of the text that find(), count() and startswith() look at, and where it starts.
struct Window {
  std::string_view text;
  std::int64_t start_points = 0;
  bool beyond_end = false;
};

Window window(Call& call, const BoundJinjaArguments& bound) {
  if (bound.get_some(1) == nullptr && bound.get_some(2) == nullptr) return {call.text, 0, false};
  charge_offsets(call.interpreter.meter(), call.text);
  const std::vector<std::size_t> offsets = code_point_offsets(call.text);
  const auto size = static_cast<std::int64_t>(offsets.size()) - 1;
  const auto clamp = [size](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  const std::int64_t wanted = bound.get_some(1) != nullptr ? bound.integer(1, 0) : 0;
  const std::int64_t start = clamp(wanted);
  const std::int64_t end = bound.get_some(2) != nullptr ? clamp(bound.integer(2, size)) : size;
  if (wanted > size || end < start) return {{}, start, true};
  const std::size_t first = offsets[static_cast<std::size_t>(start)];
  return {std::string_view(call.text).substr(first, offsets[static_cast<std::size_t>(end)] - first), start, false};
}

JinjaValue affix_method(Call& call) {
  const BoundJinjaArguments bound = call.bind(1, {"affix", "start", "end"});
  const Window seen = window(call, bound);
  const JinjaValue& affix = *bound.get(0);
  const auto fits = [&](const JinjaValue& candidate) {
    if (!candidate.is_text()) {
      throw JinjaFailure(fmt::format("{}() needs a str or a tuple of str, got '{}'", call.name, candidate.type_name()));
    }
    if (seen.beyond_end) return false;
    return call.name == "startswith" ? seen.text.starts_with(candidate.as_text())
                                     : seen.text.ends_with(candidate.as_text());
  };
  if (affix.is_sequence() && affix.as_sequence().kind == JinjaSequence::Kind::kTuple) {
    const JinjaValues& candidates = affix.as_sequence().items;
    return JinjaValue(std::any_of(candidates.begin(), candidates.end(), fits));
  }
  return JinjaValue(fits(affix));
}

JinjaValue find_method(Call& call) {
  const BoundJinjaArguments bound = call.bind(1, {"sub", "start", "end"});
  const std::string wanted = bound.text(0);
  const Window seen = window(call, bound);
  const bool from_left = call.name == "find" || call.name == "index";
  const std::size_t at = seen.beyond_end ? std::string_view::npos
                         : from_left     ? find_text(seen.text, wanted)
                                         : find_last_text(seen.text, wanted);
  call.interpreter.meter().step(call.text.size() / 16);
  if (at != std::string_view::npos) {
    return JinjaValue(seen.start_points + static_cast<std::int64_t>(num_code_points(seen.text.substr(0, at))));
  }
  if (call.name.ends_with("index")) throw JinjaFailure("substring not found");
  return JinjaValue(std::int64_t{-1});
}

JinjaValue count_method(Call& call) {
  const BoundJinjaArguments bound = call.bind(1, {"sub", "start", "end"});
  const std::string wanted = bound.text(0);
  const Window seen = window(call, bound);
  if (seen.beyond_end) return JinjaValue(std::int64_t{0});
  if (wanted.empty()) return JinjaValue(static_cast<std::int64_t>(num_code_points(seen.text)) + 1);
  call.interpreter.meter().step(call.text.size() / 16);
  return JinjaValue(static_cast<std::int64_t>(count_of(seen.text, wanted)));
}

JinjaValue replace_method(Call& call) {
  const BoundJinjaArguments bound = call.bind(2, {"old", "new", "count"});
  return JinjaValue(metered_replace(call.interpreter, call.text, bound.text(0), bound.text(1), bound.integer(2, -1)));
}

JinjaValue remove_affix_method(Call& call) {
  const std::string affix = call.bind(1, {"affix"}).text(0);
  if (call.name == "removeprefix") {
    return JinjaValue(call.text.starts_with(affix) ? call.text.substr(affix.size()) : call.text);
  }
  return JinjaValue(call.text.ends_with(affix) ? call.text.substr(0, call.text.size() - affix.size()) : call.text);
}

JinjaValue join_method(Call& call) {
  std::string joined;
  bool first = true;
  for (const JinjaValue& item : call.interpreter.iterate(*call.bind(1, {"iterable"}).get(0))) {
    if (!item.is_text()) {
      throw JinjaFailure(fmt::format("join() needs str items, got '{}'", item.type_name()));
    }
    call.interpreter.meter().allocate(item.as_text().size() + call.text.size());
    if (!first) joined += call.text;
    first = false;
    joined += item.as_text();
  }
  return JinjaValue(std::move(joined));
}

JinjaValue format_method(Call& call) { return JinjaValue(format_braces(call.interpreter, call.text, call.arguments)); }

JinjaValue pad_method(Call& call) {
  const BoundJinjaArguments bound = call.bind(1, {"width", "fillchar"});
  const std::string fill = bound.text(1, call.name == "zfill" ? "0" : " ");
  if (num_code_points(fill) != 1) throw JinjaFailure("The fill character must be exactly one character long");
  const auto size = static_cast<std::int64_t>(num_code_points(call.text));
  const std::int64_t missing = std::max<std::int64_t>(bound.integer(0, 0) - size, 0);
  call.interpreter.meter().allocate(static_cast<std::uint64_t>(missing), fill.size());
  std::int64_t left = 0;
  if (call.name == "rjust" || call.name == "zfill") left = missing;
  // Python's rule for the odd blank.
  if (call.name == "center") left = missing / 2 + (missing & bound.integer(0, 0) & 1);
  std::string out;
  std::string_view rest = call.text;
  if (call.name == "zfill" && (rest.starts_with('-') || rest.starts_with('+'))) {
    out += rest.front();
    rest.remove_prefix(1);
  }
  for (std::int64_t i = 0; i < left; ++i) out += fill;
  out += rest;
  for (std::int64_t i = left; i < missing; ++i) out += fill;
  return JinjaValue(std::move(out));
}

Method find_method_named(std::string_view name) {
  static const std::unordered_map<std::string_view, Method> kMethods = {
      {"strip", strip_method},
      {"lstrip", strip_method},
      {"rstrip", strip_method},
      {"split", split_method},
      {"rsplit", split_method},
      {"partition", partition_method},
      {"rpartition", partition_method},
      {"splitlines", split_lines_method},
      {"upper", case_method},
      {"lower", case_method},
      {"casefold", case_method},
      {"title", case_method},
      {"swapcase", case_method},
      {"capitalize", case_method},
      {"isalpha", class_method},
      {"isalnum", class_method},
      {"isspace", class_method},
      {"isupper", class_method},
      {"islower", class_method},
      {"isdigit", class_method},
      {"isdecimal", class_method},
      {"isnumeric", class_method},
      {"startswith", affix_method},
      {"endswith", affix_method},
      {"find", find_method},
      {"rfind", find_method},
      {"index", find_method},
      {"rindex", find_method},
      {"count", count_method},
      {"replace", replace_method},
      {"removeprefix", remove_affix_method},
      {"removesuffix", remove_affix_method},
      {"join", join_method},
      {"format", format_method},
      {"ljust", pad_method},
      {"rjust", pad_method},
      {"center", pad_method},
      {"zfill", pad_method},
  };
  const auto found = kMethods.find(name);
  return found == kMethods.end() ? nullptr : found->second;
}

}  // namespace

bool has_text_method(std::string_view name) { return find_method_named(name) != nullptr; }

JinjaValue call_text_method(JinjaInterpreter& interpreter, const std::string& text, std::string_view name,
                            JinjaArguments arguments) {
  // Most methods read the text once and copy it once.
  interpreter.meter().allocate(text.size());
  Call call{interpreter, text, name, std::move(arguments)};
  return find_method_named(name)(call);
}

std::string metered_replace(JinjaInterpreter& interpreter, std::string_view text, std::string_view from,
                            std::string_view to, std::int64_t max_count) {
  // How long the result gets is known only after the search, so the worst is charged before it.
  const std::uint64_t max_found = from.empty() ? text.size() + 1 : text.size() / from.size();
  if (to.size() > from.size()) interpreter.meter().allocate(max_found * (to.size() - from.size()));
  interpreter.meter().allocate(text.size());
  return replace_all(text, from, to, max_count);
}

}  // namespace sluice
