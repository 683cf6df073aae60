// SPDX-License-Identifier: Apache-2.0
// The messages of a row as chat templates take them: roles by their usual names, contents as text or parts of text,
// calls as tool_calls. What a message says about its own training (weight, train) is taken out of it. Pure functions.
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
  RowJson list;                             // null where there are none
  std::vector<std::size_t> untrained;       // the assistant's messages that are not trained on, ascending
  std::vector<std::size_t> trained_others;  // messages of others that the row wants trained, ascending
  bool any_parts = false;                   // some content is a list of parts, {"type": "text", "text": ...}
  bool any_written_arguments = false;       // some call's arguments are a string of JSON
  bool any_wordless_calls = false;          // some message calls tools and says nothing
  // Where the messages stand in the row: the key of a list and which message is its first.
  std::vector<std::pair<std::string, std::size_t>> places;

  // messages[3]; for the member of a message: messages[3].content
  std::string place_of(std::size_t idx, std::string_view member = "") const;
};

std::string message_place(std::string_view list, std::size_t idx, std::string_view member);

// `system` in front of everything, where it is not empty.
void add_system(RowMessages& to, const std::string& system);
// All of `messages`, which stand under this key: role and content. Throws BadRow.
void add_messages(RowMessages& to, RowJson messages, const std::string& key);
// The same of from and value, as ShareGPT has them; a turn with a role is a message.
void add_turns(RowMessages& to, RowJson turns, const std::string& key, RowLeftovers& leftovers);
// One that the row spells in another way.
void add_plain(RowMessages& to, std::string_view role, std::string content);

}  // namespace sluice
