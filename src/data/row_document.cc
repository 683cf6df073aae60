// SPDX-License-Identifier: Apache-2.0
#include "data/row_document.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "data/alpaca_prompt.h"
#include "data/row_problem.h"

namespace sluice {
namespace {

std::string message_key(std::string_view list, std::size_t idx, std::string_view member) {
  return fmt::format("{}[{}]{}{}", list, idx, member.empty() ? "" : ".", member);
}

const RowJson& require(const RowJson& object, std::string_view member, const std::string& key) {
  const auto found = object.find(member);
  if (found == object.end()) throw BadRow(key, "the key is missing; add it");
  return *found;
}

std::string text_at(const RowJson& object, std::string_view member, const std::string& key) {
  const RowJson& value = require(object, member, key);
  if (!value.is_string()) throw BadRow(key, fmt::format("wanted a string, found {}", describe_row_json(value)));
  return value.get<std::string>();
}

std::string required_text(const RowJson& row, std::string_view key) { return text_at(row, key, std::string(key)); }

std::string optional_text(const RowJson& row, std::string_view key) {
  return row.contains(key) && !row[key].is_null() ? required_text(row, key) : "";
}

// A list, or a string that holds one in JSON, as in the cells of a CSV file.
RowJson list_at(const RowJson& row, std::string_view member) {
  const std::string key(member);
  RowJson value = require(row, member, key);
  if (value.is_string()) value = parse_row_json(RowJson(value).get_ref<const std::string&>(), key);
  if (!value.is_array()) throw BadRow(key, fmt::format("wanted a list, found {}", describe_row_json(value)));
  return value;
}

RowJson optional_list(const RowJson& row, std::string_view key) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return nullptr;
  if (found->is_string() && found->get_ref<const std::string&>().empty()) return nullptr;  // an empty cell
  return list_at(row, key);
}

RowJson message(std::string_view role, std::string content) {
  return {{"role", role}, {"content", std::move(content)}};
}

void check_role(const std::string& role, const std::string& key) {
  static constexpr std::array<std::string_view, 7> kRoles{"system", "developer", "user",   "assistant",
                                                          "tool",   "function",  "ipython"};
  if (std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end()) return;
  throw BadRow(key, fmt::format("there is no role {}; use system, user, assistant or tool", describe_row_json(role)));
}

// As the template will see it: nothing is taken out or added.
void check_message(const RowJson& item, std::string_view list, std::size_t idx) {
  if (!item.is_object()) {
    throw BadRow(message_key(list, idx, ""),
                 fmt::format("wanted an object with role and content, found {}", describe_row_json(item)));
  }
  const std::string role_key = message_key(list, idx, "role");
  check_role(text_at(item, "role", role_key), role_key);
  const std::string content_key = message_key(list, idx, "content");
  const auto content = item.find("content");
  const bool calls_tools = item.contains("tool_calls") && !item["tool_calls"].is_null();
  if (content == item.end() || content->is_null()) {
    if (!calls_tools) throw BadRow(content_key, "the content is missing; write what was said, or a list of tool_calls");
  } else if (!content->is_string() && !content->is_array()) {
    throw BadRow(content_key, fmt::format("wanted a string or a list of parts, found {}", describe_row_json(*content)));
  }
}

RowJson checked_messages(RowJson messages, std::string_view key) {
  if (messages.empty()) throw BadRow(std::string(key), "the conversation is empty; add messages or remove the row");
  for (std::size_t i = 0; i < messages.size(); ++i) check_message(messages[i], key, i);
  return messages;
}

Document document_of_messages(const RowJson& row) {
  return {.messages = checked_messages(list_at(row, "messages"), "messages"),
          .tools = optional_list(row, "tools"),
          .documents = optional_list(row, "documents")};
}

// What a turn calls its speaker, and the role that it is.
struct Speaker {
  std::string_view name;
  std::string_view role;
};
constexpr std::array<Speaker, 13> kSpeakers{{{"human", "user"},
                                             {"user", "user"},
                                             {"gpt", "assistant"},
                                             {"assistant", "assistant"},
                                             {"chatgpt", "assistant"},
                                             {"bot", "assistant"},
                                             {"model", "assistant"},
                                             {"function_call", "assistant"},
                                             {"system", "system"},
                                             {"observation", "tool"},
                                             {"function_response", "tool"},
                                             {"function", "tool"},
                                             {"tool", "tool"}}};

// The value of a function_call: {"name": ..., "arguments": ...} in JSON, or a list of those.
RowJson call_message(const std::string& value, const std::string& key) {
  RowJson calls = parse_row_json(value, key);
  if (!calls.is_array()) calls = RowJson::array({std::move(calls)});
  RowJson list = RowJson::array();
  for (RowJson& call : calls) {
    if (!call.is_object() || !call.contains("name") || !call.contains("arguments")) {
      throw BadRow(key, R"(a function_call must be {"name": ..., "arguments": ...} in JSON)");
    }
    list.push_back(RowJson{{"type", "function"}, {"function", std::move(call)}});
  }
  return {{"role", "assistant"}, {"content", ""}, {"tool_calls", std::move(list)}};
}

RowJson message_of_turn(const RowJson& turn, std::size_t idx) {
  constexpr std::string_view kList = "conversations";
  if (!turn.is_object()) {
    throw BadRow(message_key(kList, idx, ""),
                 fmt::format("wanted an object with from and value, found {}", describe_row_json(turn)));
  }
  if (!turn.contains("from") && turn.contains("role")) {
    check_message(turn, kList, idx);
    return turn;
  }
  const std::string from_key = message_key(kList, idx, "from");
  const std::string value_key = message_key(kList, idx, "value");
  const std::string from = text_at(turn, "from", from_key);
  std::string value = text_at(turn, "value", value_key);
  const auto* const speaker =
      std::find_if(kSpeakers.begin(), kSpeakers.end(), [&](const Speaker& known) { return known.name == from; });
  if (speaker == kSpeakers.end()) {
    throw BadRow(from_key, fmt::format("nobody is called {}; use human, gpt, system, function_call or observation",
                                       describe_row_json(from)));
  }
  return from == "function_call" ? call_message(value, value_key) : message(speaker->role, std::move(value));
}

Document document_of_conversations(const RowJson& row) {
  const RowJson turns = list_at(row, "conversations");
  if (turns.empty()) throw BadRow("conversations", "the conversation is empty; add turns or remove the row");
  Document document{.messages = RowJson::array(), .tools = optional_list(row, "tools")};
  const std::string system = optional_text(row, "system");
  if (!system.empty()) document.messages.push_back(message("system", system));
  for (std::size_t i = 0; i < turns.size(); ++i) document.messages.push_back(message_of_turn(turns[i], i));
  return document;
}

std::vector<std::pair<std::string, std::string>> history_of(const RowJson& row) {
  std::vector<std::pair<std::string, std::string>> history;
  const RowJson turns = optional_list(row, "history");
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const RowJson& turn = turns[i];
    if (!turn.is_array() || turn.size() != 2 || !turn[0].is_string() || !turn[1].is_string()) {
      throw BadRow(message_key("history", i, ""),
                   fmt::format("wanted [instruction, response], found {}", describe_row_json(turn)));
    }
    history.emplace_back(turn[0].get<std::string>(), turn[1].get<std::string>());
  }
  return history;
}

Document document_of_instruction(const RowJson& row) {
  const AlpacaRow alpaca{.instruction = required_text(row, "instruction"),
                         .input = optional_text(row, "input"),
                         .system = optional_text(row, "system"),
                         .history = history_of(row)};
  const std::string output = required_text(row, "output");
  Document document{.messages = RowJson::array(), .raw = RawText{alpaca_prompt(alpaca), output}};
  if (!alpaca.system.empty()) document.messages.push_back(message("system", alpaca.system));
  for (const auto& turn : alpaca.history) {
    document.messages.push_back(message("user", turn.first));
    document.messages.push_back(message("assistant", turn.second));
  }
  const bool joined = !alpaca.instruction.empty() && !alpaca.input.empty();
  document.messages.push_back(message("user", alpaca.instruction + (joined ? "\n" : "") + alpaca.input));
  document.messages.push_back(message("assistant", output));
  return document;
}

Document document_of_completion(const RowJson& row) {
  const RowJson& prompt = require(row, "prompt", "prompt");
  const RowJson& completion = require(row, "completion", "completion");
  if (prompt.is_string() && completion.is_string()) {
    return {.raw = RawText{prompt.get<std::string>(), completion.get<std::string>()}};
  }
  if (!prompt.is_array() || !completion.is_array()) {
    throw BadRow(prompt.is_array() || prompt.is_string() ? "completion" : "prompt",
                 fmt::format("prompt and completion must both be strings or both be lists of messages, found {} and {}",
                             describe_row_json(prompt), describe_row_json(completion)));
  }
  Document document{.messages = checked_messages(prompt, "prompt"), .tools = optional_list(row, "tools")};
  const RowJson answers = checked_messages(completion, "completion");
  document.num_learned_messages = static_cast<std::size_t>(std::count_if(
      answers.begin(), answers.end(), [](const RowJson& answer) { return answer["role"] == "assistant"; }));
  for (const RowJson& answer : answers) document.messages.push_back(answer);
  return document;
}

}  // namespace

Document document_of_row(RowSchema schema, const Row& row) {
  const RowJson& value = row.value;
  if (!value.is_object()) {
    throw BadRow("", fmt::format("a row must be a JSON object with named values, found {}", describe_row_json(value)));
  }
  switch (schema) {
    case RowSchema::kMessages:
      return document_of_messages(value);
    case RowSchema::kConversations:
      return document_of_conversations(value);
    case RowSchema::kInstruction:
      return document_of_instruction(value);
    case RowSchema::kPromptCompletion:
      return document_of_completion(value);
    case RowSchema::kQuestionAnswer:
      return {.messages = RowJson::array({message("user", required_text(value, "question")),
                                          message("assistant", required_text(value, "answer"))})};
    case RowSchema::kText:
      return {.raw = RawText{"", required_text(value, "text")}, .part = row.part};
  }
  CHECK(false, "every schema makes documents");
  return {};
}

}  // namespace sluice
