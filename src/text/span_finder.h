// SPDX-License-Identifier: Apache-2.0
// Finds the assistant's span in a rendered conversation if the template does not mark it, one message at a time. For
// assistant message i:
//
//   begin  the text of the messages before i with the generation prompt, where it is a prefix of the whole; otherwise
//          (templates that render old turns differently, such as those that drop old thoughts) behind the generation
//          prompt that stands last before the first byte that depends on message i
//   end    the last byte that depends on message i, and the text behind it that also follows when i is the last message
//
// The bytes that depend on a message are those that differ in two more renderings with its strings replaced. A message
// takes about eight renderings of the whole conversation; see RepeatedTurns for long ones. Borrows everything.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "text/jinja_interpreter.h"

namespace sluice {

enum class GenerationPromptWish { kNone, kAdd };
using ChatRenderer = std::function<JinjaOutput(const nlohmann::ordered_json& messages, GenerationPromptWish wish)>;

// Throws FormatError: the span of message `idx` cannot be determined with this template.
[[noreturn]] void refuse_to_tell(std::size_t idx);

class SpanFinder {
 public:
  // `text`: the rendering of `messages` with this wish.
  SpanFinder(const nlohmann::ordered_json& messages, const std::string& text, GenerationPromptWish wish,
             const ChatRenderer& render)
      : messages_(messages), text_(text), wish_(wish), render_(render) {}

  // Throws FormatError if the message's span cannot be determined.
  TextSpan find(std::size_t idx);

 private:
  std::optional<std::string> try_render(const nlohmann::ordered_json& messages, GenerationPromptWish wish) const;
  nlohmann::ordered_json first_messages(std::size_t count) const;
  std::optional<TextSpan> dependent(std::size_t idx) const;
  std::optional<TextSpan> dependent(const nlohmann::ordered_json& messages, const std::string& whole,
                                    GenerationPromptWish wish, std::size_t idx) const;
  std::optional<std::size_t> find_begin(std::size_t idx, const std::optional<TextSpan>& own);
  std::string generation_prompt(const nlohmann::ordered_json& before, const std::optional<std::string>& prompted) const;
  std::optional<std::size_t> find_end(std::size_t idx, const std::optional<TextSpan>& own) const;
  std::size_t turn_end(const nlohmann::ordered_json& until, const std::string& last, std::size_t last_at,
                       std::size_t at) const;

  const nlohmann::ordered_json& messages_;
  const std::string& text_;
  GenerationPromptWish wish_;
  const ChatRenderer& render_;
  bool begin_is_sure_ = false;  // the current message's begin is exact: no later text precedes it
};

}  // namespace sluice
