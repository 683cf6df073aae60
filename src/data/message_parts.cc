// SPDX-License-Identifier: Apache-2.0
#include "data/message_parts.h"

#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "data/row_problem.h"

namespace sluice {
namespace {

bool is_media_type(std::string_view type) {
  for (const std::string_view kind : {"image", "video", "audio"}) {
    if (type.find(kind) != std::string_view::npos) return true;
  }
  return type == "file" || type == "input_file";
}

// The text of a part: its value under `usual`, or else under "value" or "text".
const RowJson& words_of(const RowJson& part, std::string_view usual, const std::string& key) {
  for (const std::string_view name : {usual, std::string_view("value"), std::string_view("text")}) {
    const auto found = part.find(name);
    if (found == part.end()) continue;
    if (!found->is_string()) throw BadRow(key, fmt::format("wanted a string, found {}", describe_row_json(*found)));
    return *found;
  }
  throw BadRow(key, R"(a part of a content must be {"type": "text", "text": ...})");
}

std::string type_of(const RowJson& part, const std::string& key) {
  const auto type = part.find("type");
  if (type != part.end() && type->is_string()) return type->get<std::string>();
  if (part.contains("text")) return "text";
  throw BadRow(key, "the part says no type; only text can be trained on");
}

void append_thoughts(RowJson& message, const std::string& thoughts) {
  RowJson& all = message["reasoning_content"];
  all = all.is_string() && !all.get_ref<const std::string&>().empty() ? all.get<std::string>() + "\n" + thoughts
                                                                      : thoughts;
}

void append_calls(RowJson& message, RowJson calls) {
  RowJson& all = message["tool_calls"];
  if (!all.is_array()) all = RowJson::array();
  for (RowJson& call : calls) all.push_back(std::move(call));
}

// Calls `visit(arguments)` for the arguments of every tool call.
template <typename Message, typename Visit>
void for_each_arguments(Message& message, Visit visit) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (auto& call : *calls) {
    if (!call.is_object()) continue;
    const auto function = call.find("function");
    auto& callee = function != call.end() && function->is_object() ? *function : call;
    const auto arguments = callee.find("arguments");
    if (arguments != callee.end()) visit(*arguments);
  }
}

}  // namespace

void refuse_media(const std::string& key, std::string_view what) {
  throw BadRow(key,
               fmt::format("the row has {}, which would be lost: models are trained on text alone; leave such rows "
                           "out",
                           what));
}

bool holds_something(const RowJson& value) {
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();  // true for numbers and booleans
}

RowJson calls_of(const RowJson& value, const std::string& key) {
  RowJson calls = value.is_string() ? parse_row_json(value.get_ref<const std::string&>(), key) : value;
  if (!calls.is_array()) calls = RowJson::array({std::move(calls)});
  RowJson list = RowJson::array();
  for (RowJson& call : calls) {
    if (!call.is_object() || !call.contains("name") || !call.contains("arguments")) {
      throw BadRow(key, R"(a function_call must be {"name": ..., "arguments": ...} in JSON)");
    }
    list.push_back(RowJson{{"type", "function"}, {"function", std::move(call)}});
  }
  return list;
}

bool settle_parts(RowJson& message, const std::string& key) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return false;
  RowJson parts = std::move(*content);
  RowJson texts = RowJson::array();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    RowJson& part = parts[i];
    const std::string part_key = fmt::format("{}[{}]", key, i);
    if (part.is_string()) {
      texts.push_back(RowJson{{"type", "text"}, {"text", part}});
      continue;
    }
    if (!part.is_object()) {
      throw BadRow(part_key, fmt::format("wanted a part with type and text, found {}", describe_row_json(part)));
    }
    const std::string type = type_of(part, part_key);
    if (is_media_type(type)) refuse_media(part_key, fmt::format("a part of type {}", describe_row_json(type)));
    if (type == "text") {
      texts.push_back(RowJson{{"type", "text"}, {"text", words_of(part, "text", part_key)}});
    } else if (type == "reasoning" || type == "thinking") {
      append_thoughts(message, words_of(part, "thinking", part_key).get<std::string>());
    } else if (type == "tool_call") {
      append_calls(message, calls_of(words_of(part, "value", part_key), part_key));
    } else {
      throw BadRow(part_key, fmt::format("parts of type {} are not known, only those of text; write it as text",
                                         describe_row_json(type)));
    }
  }
  const bool still_parts = !texts.empty();
  if (still_parts) {
    message["content"] = std::move(texts);
  } else {
    message["content"] = "";
  }
  return still_parts;
}

bool is_wordless_call(const RowJson& message) {
  const auto calls = message.find("tool_calls");
  const auto content = message.find("content");
  return calls != message.end() && holds_something(*calls) && (content == message.end() || !holds_something(*content));
}

bool has_written_arguments(const RowJson& message) {
  bool any = false;
  for_each_arguments(message, [&](const RowJson& arguments) { any = any || arguments.is_string(); });
  return any;
}

void read_arguments(RowJson& message) {
  for_each_arguments(message, [](RowJson& arguments) {
    if (!arguments.is_string()) return;
    try {
      RowJson read = parse_row_json(arguments.get_ref<const std::string&>(), "arguments");
      if (read.is_object()) arguments = std::move(read);
    } catch (const BadRow&) {
      // Not JSON: the template receives the string unchanged.
    }
  });
}

std::string joined_parts(const RowJson& content) {
  std::string text;
  for (const RowJson& part : content) text += part["text"].get_ref<const std::string&>();
  return text;
}

}  // namespace sluice
