// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <initializer_list>

#include <fmt/format.h>

#include "base/error.h"
#include "data/row_columns.h"
#include "data/row_document.h"
#include "data/row_problem.h"
#include "format/json_text.h"

namespace sluice {
namespace {

struct NamedSchema {
  RowSchema schema;
  std::string_view name;
  std::array<std::string_view, 2> keys;  // all of them must be there; the second may be empty
};

// The first whose keys are there is taken.
constexpr std::array<NamedSchema, 6> kSchemas{
    {{RowSchema::kMessages, "messages", {"messages", ""}},
     {RowSchema::kConversations, "conversations", {"conversations", ""}},
     {RowSchema::kInstruction, "instruction", {"instruction", "output"}},
     {RowSchema::kPromptCompletion, "prompt-completion", {"prompt", "completion"}},
     {RowSchema::kQuestionAnswer, "question-answer", {"question", "answer"}},
     {RowSchema::kText, "text", {"text", ""}}}};

constexpr std::string_view kExpected =
    "messages, conversations, instruction with output, prompt with completion, question with answer, or text";

constexpr std::size_t kMaxListedKeys = 8;

std::string listed_keys(const RowJson& row) {
  std::string list;
  std::size_t num_listed = 0;
  for (const auto& item : row.items()) {
    if (num_listed++ == kMaxListedKeys) return list + ", ...";
    list += (list.empty() ? "" : ", ") + on_one_line(item.key());
  }
  return list.empty() ? "none" : list;
}

}  // namespace

std::string_view schema_name(RowSchema schema) {
  for (const NamedSchema& known : kSchemas) {
    if (known.schema == schema) return known.name;
  }
  return "";
}

RowSchema parse_schema_name(const std::string& name) {
  for (const NamedSchema& known : kSchemas) {
    if (known.name == name) return known.schema;
  }
  throw InvalidInput(fmt::format(
      "there is no schema {}; it is messages, conversations, instruction, prompt-completion, question-answer or text",
      in_quotes(name)));
}

RowSchema detect_schema(const RowJson& row) {
  if (!row.is_object()) {
    throw BadRow("", fmt::format("a row must be a JSON object with named values, found {}", describe_row_json(row)));
  }
  refuse_preference_pair(row);
  for (const NamedSchema& known : kSchemas) {
    if (row.contains(known.keys[0]) && (known.keys[1].empty() || row.contains(known.keys[1]))) return known.schema;
  }
  throw BadRow("",
               fmt::format("the keys fit no schema: wanted {}; found {}; rename them", kExpected, listed_keys(row)));
}

}  // namespace sluice
