// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "text/jinja_arguments.h"
#include "text/jinja_filters.h"
#include "text/jinja_format.h"
#include "text/jinja_print.h"
#include "text/jinja_text_methods.h"
#include "text/python_text.h"
#include "text/utf8.h"

namespace sluice {
namespace {

using Interpreter = JinjaInterpreter&;
using Input = const JinjaValue&;
using Arguments = JinjaArguments;

// upper, lower, capitalize: the method of the same name, on anything's text.
template <std::string (*kChange)(std::string_view)>
JinjaValue case_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments none("a case filter", 0, {}, std::move(arguments));
  const std::string text = interpreter.text(input);
  interpreter.meter().allocate(text.size() * 2);
  return JinjaValue(kChange(text));
}

// Words start after blanks, dashes and opening brackets; unlike in str.title(), not after an apostrophe.
std::string title_words(std::string_view text) {
  std::string title;
  std::size_t at = 0;
  const auto separates = [](char32_t point) {
    return is_python_space(point) || point == '-' || point == '(' || point == '{' || point == '[' || point == '<';
  };
  while (at < text.size()) {
    const CodePoint first = decode_utf8(text, at);
    std::size_t end = at + first.size_bytes;
    while (end < text.size() && separates(decode_utf8(text, end).value) == separates(first.value)) {
      end += decode_utf8(text, end).size_bytes;
    }
    title += to_upper(text.substr(at, first.size_bytes));
    title += to_lower(text.substr(at + first.size_bytes, end - at - first.size_bytes));
    at = end;
  }
  return title;
}

JinjaValue trim_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("trim", 0, {"chars"}, std::move(arguments));
  const std::string text = interpreter.text(input);
  if (bound.get_some(0) == nullptr) return JinjaValue(std::string(strip(text, std::nullopt, TextSides::kBoth)));
  const std::string chars = bound.text(0);
  return JinjaValue(std::string(strip(text, chars, TextSides::kBoth)));
}

JinjaValue tojson_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("tojson", 0, {"ensure_ascii", "indent", "separators", "sort_keys"},
                                  std::move(arguments));
  JsonStyle style;
  if (bound.truth(0)) style.escapes = JsonStyle::Escapes::kNonAscii;
  if (bound.truth(3)) style.order = JsonStyle::Order::kSorted;
  if (const JinjaValue* const indent = bound.get_some(1)) {
    style.indent =
        indent->is_text()
            ? indent->as_text()
            : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(bound.integer(1, 0), 0, 1000)), ' ');
    style.item_separator = ",";
  }
  if (const JinjaValue* const separators = bound.get_some(2)) {
    const JinjaValues pair = interpreter.iterate(*separators);
    if (pair.size() != 2 || !pair[0].is_text() || !pair[1].is_text()) {
      throw JinjaFailure("tojson needs two strings as separators");
    }
    style.item_separator = pair[0].as_text();
    style.key_separator = pair[1].as_text();
  }
  return JinjaValue(to_json(input, style, interpreter.meter()));
}

JinjaValue replace_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("replace", 2, {"old", "new", "count"}, std::move(arguments));
  const std::int64_t count = bound.get_some(2) == nullptr ? -1 : bound.integer(2, -1);
  return JinjaValue(metered_replace(interpreter, interpreter.text(input), interpreter.text(*bound.get(0)),
                                    interpreter.text(*bound.get(1)), count));
}

JinjaValue string_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments none("string", 0, {}, std::move(arguments));
  return JinjaValue(interpreter.text(input));
}

JinjaValue safe_filter(Interpreter interpreter, Input input, Arguments arguments) {
  return string_filter(interpreter, input, std::move(arguments)).marked();
}

JinjaValue escape_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments none("escape", 0, {}, std::move(arguments));
  return escaped_markup(interpreter, input);
}

JinjaValue force_escape_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments none("forceescape", 0, {}, std::move(arguments));
  return escaped_markup(interpreter, JinjaValue(interpreter.text(input)));
}

JinjaValue indent_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("indent", 0, {"width", "first", "blank"}, std::move(arguments));
  if (input.is_undefined()) throw JinjaFailure(input.undefined_message());
  if (!input.is_text()) throw JinjaFailure(fmt::format("indent needs a string, got '{}'", input.type_name()));
  const JinjaValue width = bound.value(0, JinjaValue(std::int64_t{4}));
  const std::string indentation =
      width.is_text()
          ? width.as_text()
          : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(bound.integer(0, 4), 0, 1000)), ' ');
  const std::string whole = input.as_text() + "\n";
  interpreter.meter().allocate(most_lines(whole), sizeof(std::string_view));
  const std::vector<std::string_view> lines = split_lines(whole, LineEnds::kDrop);
  interpreter.meter().allocate(whole.size() + lines.size() * (indentation.size() + 16));
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    const bool indented = i == 0 ? bound.truth(1) : bound.truth(2) || !lines[i].empty();
    if (indented) out += indentation;
    out += lines[i];
  }
  return JinjaValue(std::move(out));
}

JinjaValue truncate_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments bound("truncate", 0, {"length", "killwords", "end", "leeway"}, std::move(arguments));
  if (!input.is_text()) throw JinjaFailure(fmt::format("truncate needs a string, got '{}'", input.type_name()));
  const std::int64_t length = bound.integer(0, 255);
  const std::string end = bound.text(2, "...");
  const std::int64_t leeway = bound.get_some(3) == nullptr ? 5 : bound.integer(3, 5);
  const auto end_points = static_cast<std::int64_t>(num_code_points(end));
  if (length < end_points) throw JinjaFailure(fmt::format("expected length >= {}, got {}", end_points, length));
  if (leeway < 0) throw JinjaFailure(fmt::format("expected leeway >= 0, got {}", leeway));
  const std::int64_t size = interpreter.length(input);
  if (size <= length || size - length <= leeway) return input;
  std::string kept = interpreter.slice(input, JinjaValue(), JinjaValue(length - end_points), JinjaValue()).as_text();
  if (!bound.truth(1)) {
    const std::size_t blank = kept.rfind(' ');
    if (blank != std::string::npos) kept.resize(blank);
  }
  return JinjaValue(kept + end);
}

JinjaValue wordcount_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const BoundJinjaArguments none("wordcount", 0, {}, std::move(arguments));
  const std::string text = interpreter.text(input);
  std::int64_t count = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const bool word = is_python_word_character(point.value);
    if (word && !in_word) ++count;
    in_word = word;
    at += point.size_bytes;
  }
  return JinjaValue(count);
}

JinjaValue center_filter(Interpreter interpreter, Input input, Arguments arguments) {
  const std::int64_t width = BoundJinjaArguments("center", 0, {"width"}, std::move(arguments)).integer(0, 80);
  JinjaArguments method;
  method.positional.emplace_back(width);
  return call_text_method(interpreter, interpreter.text(input), "center", std::move(method));
}

JinjaValue format_filter(Interpreter interpreter, Input input, Arguments arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    throw JinjaFailure("can't handle positional and keyword arguments at the same time");
  }
  JinjaPairs pairs;
  for (auto& [name, value] : arguments.named) pairs.emplace_back(JinjaValue(name), std::move(value));
  const JinjaValue values =
      pairs.empty() ? JinjaValue::tuple(std::move(arguments.positional)) : JinjaValue::dict(std::move(pairs));
  return JinjaValue(format_percent(interpreter, interpreter.text(input), values));
}

}  // namespace

JinjaFilter find_jinja_text_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, JinjaFilter> kFilters = {
      {"upper", case_filter<to_upper>},
      {"lower", case_filter<to_lower>},
      {"capitalize", case_filter<to_capitalized>},
      {"title", case_filter<title_words>},
      {"trim", trim_filter},
      {"tojson", tojson_filter},
      {"replace", replace_filter},
      {"string", string_filter},
      {"safe", safe_filter},
      {"escape", escape_filter},
      {"e", escape_filter},
      {"forceescape", force_escape_filter},
      {"indent", indent_filter},
      {"truncate", truncate_filter},
      {"wordcount", wordcount_filter},
      {"center", center_filter},
      {"format", format_filter},
  };
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

JinjaValue escaped_markup(JinjaInterpreter& interpreter, const JinjaValue& value) {
  if (value.is_markup()) return value;
  std::string escaped;
  const std::string text = interpreter.text(value);
  interpreter.meter().allocate(text.size() * 5);
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      case '"':
        escaped += "&#34;";
        break;
      default:
        escaped += letter;
    }
  }
  return JinjaValue(std::move(escaped)).marked();
}

}  // namespace sluice
