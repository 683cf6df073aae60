// SPDX-License-Identifier: Apache-2.0
#include "data/row_columns.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "data/message_parts.h"
#include "data/row_problem.h"

namespace sluice {
namespace {

// The keys of a row that its schema reads.
std::vector<std::string_view> used_keys(RowSchema schema, const RowJson& row) {
  switch (schema) {
    case RowSchema::kMessages:
      return {"messages", "tools", "functions", "documents", "system", "chat_template_kwargs"};
    case RowSchema::kConversations:
      return {"conversations", "tools", "functions", "documents", "system", "chat_template_kwargs"};
    case RowSchema::kInstruction:
      return {"instruction", "input", "output", "system", "history", "tools"};
    case RowSchema::kPromptCompletion:
      if (row.contains("prompt") && row["prompt"].is_string()) return {"prompt", "completion"};
      return {"prompt", "completion", "tools", "functions", "documents", "chat_template_kwargs"};
    case RowSchema::kQuestionAnswer:
      return {"question", "answer"};
    case RowSchema::kText:
      return {"text"};
  }
  return {};
}

std::optional<bool> as_boolean(const RowJson& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (!value.is_string()) return std::nullopt;
  std::string text = value.get<std::string>();  // a cell of a CSV file
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

// Whether the key is KTO's label of the answer and the label is good; a bad one throws BadRow.
bool is_good_verdict(RowSchema schema, const std::string& key, const RowJson& value) {
  if (schema == RowSchema::kText || (key != "label" && key != "kto_tag")) return false;
  const std::optional<bool> good = as_boolean(value);
  if (!good) return false;
  if (!*good) {
    throw BadRow(
        key,
        "the row's answer is marked as a bad one (KTO), which is not to be imitated; leave such rows out, or go "
        "on without them (--skip-bad)");
  }
  return true;
}

}  // namespace

void refuse_preference_pair(const RowJson& row) {
  static constexpr std::array<std::string_view, 3> kWorse{"rejected", "rejected_messages", "rejected_response"};
  for (const std::string_view key : kWorse) {
    const auto found = row.find(key);
    if (found == row.end() || !holds_something(*found) || found->is_primitive() != found->is_string()) continue;
    throw BadRow(std::string(key),
                 "the row is a preference pair, which is not learned from; keep the chosen answer as the assistant's "
                 "last message and drop the other");
  }
}

void check_columns(RowSchema schema, const RowJson& row, RowLeftovers& leftovers) {
  refuse_preference_pair(row);
  const std::vector<std::string_view> used = used_keys(schema, row);
  for (const auto& item : row.items()) {
    if (!holds_something(item.value()) || std::find(used.begin(), used.end(), item.key()) != used.end()) continue;
    if (schema != RowSchema::kText && std::find(kMediaKeys.begin(), kMediaKeys.end(), item.key()) != kMediaKeys.end()) {
      refuse_media(item.key(), item.key());
    }
    if (is_good_verdict(schema, item.key(), item.value())) {
      leftovers.add_note(
          fmt::format("{} is true, a good answer in the sense of KTO; it is trained on like any other", item.key()));
    } else {
      leftovers.ignored_keys.push_back(item.key());
    }
  }
}

RowJson tools_of(const RowJson& row) {
  RowJson tools = optional_list(row, "tools");
  if (tools.empty()) tools = optional_list(row, "functions");
  if (tools.empty()) return nullptr;
  for (RowJson& tool : tools) {
    // A bare function without the usual {"type": "function"} wrapper.
    if (tool.is_object() && tool.contains("name") && !tool.contains("function")) {
      tool.erase("type");
      tool = RowJson{{"type", "function"}, {"function", std::move(tool)}};
    }
  }
  return tools;
}

RowJson required_list(const RowJson& row, std::string_view member) {
  const std::string key(member);
  const auto found = row.find(member);
  if (found == row.end()) throw BadRow(key, "the key is missing; add it");
  RowJson value = found->is_string() ? parse_row_json(found->get_ref<const std::string&>(), key) : *found;
  if (!value.is_array()) throw BadRow(key, fmt::format("wanted a list, found {}", describe_row_json(value)));
  return value;
}

RowJson optional_list(const RowJson& row, std::string_view key) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return nullptr;
  if (found->is_string() && found->get_ref<const std::string&>().empty()) return nullptr;  // an empty cell
  return required_list(row, key);
}

}  // namespace sluice
