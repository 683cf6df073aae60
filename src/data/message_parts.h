// SPDX-License-Identifier: Apache-2.0
// Content of a message other than plain text: content parts, tool calls, images, video and audio. Pure functions.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "data/row_json.h"

namespace sluice {

// Keys of rows and messages for media, which the models trained here cannot read.
inline constexpr std::array<std::string_view, 6> kMediaKeys{"images", "image", "videos", "video", "audios", "audio"};

// Throws BadRow for a row with images, video or audio; `what` is the key or the part type that holds them.
[[noreturn]] void refuse_media(const std::string& key, std::string_view what);

// Whether the value is neither null nor an empty string, list or object.
bool holds_something(const RowJson& value);

// Parses tool_calls: {"name": ..., "arguments": ...} or a list of those, as JSON or as a JSON string. Throws BadRow.
RowJson calls_of(const RowJson& value, const std::string& key);

// Normalizes a content that is a list: text parts stay as {"type": "text", "text": ...}; LLaMA-Factory's thought parts
// become reasoning_content and its call parts tool_calls; other parts throw BadRow. Returns whether the content is
// still a list.
bool settle_parts(RowJson& message, const std::string& key);

// Whether the message has tool calls and its content is null, empty or missing.
bool is_wordless_call(const RowJson& message);

// Call arguments that are an object serialized as a JSON string, as OpenAI writes them: has_written_arguments() tells
// whether there are any, read_arguments() parses them. A string that is not an object stays.
bool has_written_arguments(const RowJson& message);
void read_arguments(RowJson& message);

// The concatenated text of all parts.
std::string joined_parts(const RowJson& content);

}  // namespace sluice
