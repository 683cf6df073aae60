// SPDX-License-Identifier: Apache-2.0
// The messages of a row in the form of chat templates: standard role names, content as text or text parts, calls as
// tool_calls. A message's own training flag (weight, train) is taken out of it. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/row_json.h"
#include "data/row_notes.h"

namespace sluice {

struct RowMessages {
  RowJson list;                             // null: no messages
  std::vector<std::size_t> untrained;       // indices of assistant messages excluded from training, ascending
  std::vector<std::size_t> trained_others;  // indices of other messages flagged for training, ascending
  bool any_parts = false;                   // some content is a list of parts, {"type": "text", "text": ...}
  bool any_written_arguments = false;       // some call's arguments are a string of JSON
  bool any_wordless_calls = false;          // some message has tool calls and no text
  // Source of the messages in the row: the key of a list, and the index of its first message.
  std::vector<std::pair<std::string, std::size_t>> places;

  // "messages[3]", or with a member "messages[3].content".
  std::string place_of(std::size_t idx, std::string_view member = "") const;
};

std::string message_place(std::string_view list, std::size_t idx, std::string_view member);

// Puts `system` before all messages, unless it is empty.
void add_system(RowMessages& to, const std::string& system);
// Appends all of `messages`, the value of `key`, with role and content. Throws BadRow.
void add_messages(RowMessages& to, RowJson messages, const std::string& key);
// Appends ShareGPT turns (from, value); a turn with a role is taken as a message.
void add_turns(RowMessages& to, RowJson turns, const std::string& key, RowLeftovers& leftovers);
// Appends a message built from a schema without message objects.
void add_plain(RowMessages& to, std::string_view role, std::string content);

}  // namespace sluice
