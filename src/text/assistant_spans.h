// SPDX-License-Identifier: Apache-2.0
// Finds what the assistant wrote in a rendered conversation when the template does not say. For assistant message i:
//
//   begin  the text of the messages before i with the generation prompt, where it is a prefix of the whole; otherwise
//          (templates that render old turns differently, such as those that drop old thoughts) behind the generation
//          prompt that stands last before the first byte that depends on message i
//   end    the last byte that depends on message i, and the text behind it that also follows when i is the last message
//
// Which bytes depend on a message is seen by rendering it twice more with its strings replaced. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/jinja_interpreter.h"

namespace sluice {

enum class GenerationPromptWish { kNone, kAdd };
using ChatRenderer = std::function<std::string(const nlohmann::ordered_json& messages, GenerationPromptWish wish)>;

// `text` is what `messages` were rendered to with this wish. Throws FormatError where a message's part of it cannot be
// told.
std::vector<TextSpan> find_assistant_spans(const nlohmann::ordered_json& messages, const std::string& text,
                                           GenerationPromptWish wish, const ChatRenderer& render);

}  // namespace sluice
