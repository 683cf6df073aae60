// SPDX-License-Identifier: Apache-2.0
// What a message holds beside plain text: parts of its content, calls of tools, pictures and sound. Pure functions.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "data/row_json.h"

namespace sluice {

// Keys of rows and of messages that hold what models trained here cannot read.
inline constexpr std::array<std::string_view, 6> kMediaKeys{"images", "image", "videos", "video", "audios", "audio"};

// Throws the BadRow of a row with pictures, films or sound; `what` is the key or the type that holds them.
[[noreturn]] void refuse_media(const std::string& key, std::string_view what);

// Neither null nor an empty string, list or object.
bool holds_something(const RowJson& value);

// tool_calls of {"name": ..., "arguments": ...} or a list of those, as JSON or in a string. Throws BadRow.
RowJson calls_of(const RowJson& value, const std::string& key);

// A content that is a list: parts of text stay as {"type": "text", "text": ...}; thoughts become reasoning_content and
// calls tool_calls, as LLaMA-Factory's parts have them; anything else is refused. Whether the content is still a list.
bool settle_parts(RowJson& message, const std::string& key);

// Whether the message calls tools and its content is null, empty or missing.
bool is_wordless_call(const RowJson& message);

// Arguments of calls that are an object written as a string of JSON, as OpenAI has them: whether there are any, and as
// objects. A string that is no object stays.
bool has_written_arguments(const RowJson& message);
void read_arguments(RowJson& message);

// The text of all parts.
std::string joined_parts(const RowJson& content);

}  // namespace sluice
