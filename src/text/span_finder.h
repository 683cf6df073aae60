// SPDX-License-Identifier: Apache-2.0
// Finds what the assistant wrote in a rendered conversation when the template does not say, one message at a time. For
// assistant message i:
//
//   begin  the text of the messages before i with the generation prompt, where it is a prefix of the whole; otherwise
//          (templates that render old turns differently, such as those that drop old thoughts) behind the generation
//          prompt that stands last before the first byte that depends on message i
//   end    the last byte that depends on message i, and the text behind it that also follows when i is the last message
//
// Which bytes depend on a message is seen by rendering it twice more with its strings replaced. So a message takes some
// eight renderings of the whole conversation: see RepeatedTurns for long ones. Borrows everything.
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

// Throws the FormatError of a template whose part of the text cannot be told from message `idx`.
[[noreturn]] void refuse_to_tell(std::size_t idx);

class SpanFinder {
 public:
  // `text` is what `messages` were rendered to with this wish.
  SpanFinder(const nlohmann::ordered_json& messages, const std::string& text, GenerationPromptWish wish,
             const ChatRenderer& render)
      : messages_(messages), text_(text), wish_(wish), render_(render) {}

  // Throws FormatError where the message's part of the text cannot be told.
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
  bool begin_is_sure_ = false;  // of the message at hand: nothing that comes later stands before it
};

}  // namespace sluice
