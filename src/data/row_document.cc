// SPDX-License-Identifier: Apache-2.0
#include "data/row_document.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "data/alpaca_prompt.h"
#include "data/message_parts.h"
#include "data/row_columns.h"
#include "data/row_problem.h"

namespace sluice {
namespace {

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

RowJson template_variables(const RowJson& row) {
  const auto found = row.find("chat_template_kwargs");
  if (found == row.end() || !holds_something(*found)) return RowJson::object();
  RowJson variables = found->is_string() ? parse_row_json(found->get_ref<const std::string&>(), found.key()) : *found;
  if (!variables.is_object()) {
    throw BadRow(found.key(), fmt::format("wanted an object of variables of the chat template, found {}",
                                          describe_row_json(variables)));
  }
  return variables;
}

// Puts the row's `system` before its messages, unless these begin with a system message.
void add_system_of(const RowJson& row, const RowJson& messages, Document& document) {
  const std::string system = optional_text(row, "system");
  if (system.empty()) return;
  const auto says = [&](const char* key) {
    return !messages.empty() && messages[0].is_object() && messages[0].contains(key) && messages[0][key] == "system";
  };
  if (says("role") || says("from")) {
    document.leftovers.add_note("system stands beside messages that begin with the system's; those count");
    return;
  }
  add_system(document.chat, system);
}

Document document_of_messages(const RowJson& row) {
  Document document{
      .tools = tools_of(row), .documents = optional_list(row, "documents"), .variables = template_variables(row)};
  RowJson messages = required_list(row, "messages");
  add_system_of(row, messages, document);
  add_messages(document.chat, std::move(messages), "messages");
  return document;
}

Document document_of_conversations(const RowJson& row) {
  Document document{
      .tools = tools_of(row), .documents = optional_list(row, "documents"), .variables = template_variables(row)};
  RowJson turns = required_list(row, "conversations");
  add_system_of(row, turns, document);
  add_turns(document.chat, std::move(turns), "conversations", document.leftovers);
  return document;
}

std::vector<std::pair<std::string, std::string>> history_of(const RowJson& row) {
  std::vector<std::pair<std::string, std::string>> history;
  const RowJson turns = optional_list(row, "history");
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const RowJson& turn = turns[i];
    if (!turn.is_array() || turn.size() != 2 || !turn[0].is_string() || !turn[1].is_string()) {
      throw BadRow(message_place("history", i, ""),
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
  Document document{.tools = tools_of(row), .raw = RawText{alpaca_prompt(alpaca), output}};
  add_system(document.chat, alpaca.system);
  for (const auto& turn : alpaca.history) {
    add_plain(document.chat, "user", turn.first);
    add_plain(document.chat, "assistant", turn.second);
  }
  const bool joined = !alpaca.instruction.empty() && !alpaca.input.empty();
  add_plain(document.chat, "user", alpaca.instruction + (joined ? "\n" : "") + alpaca.input);
  add_plain(document.chat, "assistant", output);
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
  Document document{
      .tools = tools_of(row), .documents = optional_list(row, "documents"), .variables = template_variables(row)};
  add_messages(document.chat, prompt, "prompt");
  const std::size_t first_answer = document.chat.list.size();
  add_messages(document.chat, completion, "completion");
  document.num_learned_messages = static_cast<std::size_t>(
      std::count_if(document.chat.list.begin() + static_cast<std::ptrdiff_t>(first_answer), document.chat.list.end(),
                    [](const RowJson& answer) { return answer["role"] == "assistant"; }));
  return document;
}

Document document_of_question(const RowJson& row) {
  Document document;
  add_plain(document.chat, "user", required_text(row, "question"));
  add_plain(document.chat, "assistant", required_text(row, "answer"));
  return document;
}

Document document_of_schema(RowSchema schema, const Row& row) {
  const RowJson& value = row.value;
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
      return document_of_question(value);
    case RowSchema::kText:
      return {.raw = RawText{"", required_text(value, "text")}, .part = row.part};
  }
  CHECK(false, "the schema makes no documents");
  return {};
}

}  // namespace

Document document_of_row(RowSchema schema, const Row& row) {
  const RowJson& value = row.value;
  if (!value.is_object()) {
    throw BadRow("", fmt::format("a row must be a JSON object with named values, found {}", describe_row_json(value)));
  }
  Document document = document_of_schema(schema, row);
  check_columns(schema, value, document.leftovers);
  return document;
}

}  // namespace sluice
