// SPDX-License-Identifier: Apache-2.0
// What a row says, whatever it calls its columns: a conversation, or raw text. Schemas are told from the keys of a row.
// Pure functions; knows neither models nor tokens.
//
//   messages                                   role and content, as chat templates take them
//   conversations                              from and value (ShareGPT)
//   instruction, input, output[, system, history]   Alpaca
//   prompt, completion | question, answer | text
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "data/row_json.h"
#include "data/row_messages.h"
#include "data/row_notes.h"
#include "data/row_reader.h"

namespace sluice {

enum class RowSchema { kMessages, kConversations, kInstruction, kPromptCompletion, kQuestionAnswer, kText };

std::string_view schema_name(RowSchema schema);
// "messages", "conversations", "instruction", "prompt-completion", "question-answer", "text"; InvalidInput otherwise.
RowSchema parse_schema_name(const std::string& name);
// Throws BadRow where the keys are those of no schema; the message lists them.
RowSchema detect_schema(const RowJson& row);

struct RawText {
  std::string prompt;      // given, not learned
  std::string completion;  // learned, with the end of the text behind it
};

struct Document {
  RowMessages chat;  // its list is null if the document is raw text
  RowJson tools;
  RowJson documents;
  RowJson variables = RowJson::object();  // chat template variables: the row's chat_template_kwargs
  // How many of the assistant's messages are learned, counted from the last; nothing: all.
  std::optional<std::size_t> num_learned_messages;
  std::optional<RawText> raw;  // with messages too: what stands for them where a model has no chat template
  std::optional<TextPart> part;
  RowLeftovers leftovers;
};

// Throws BadRow with the key at fault.
Document document_of_row(RowSchema schema, const Row& row);

}  // namespace sluice
