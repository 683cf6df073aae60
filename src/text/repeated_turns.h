// SPDX-License-Identifier: Apache-2.0
// Finds the assistant's spans in long conversations in linear time. A template writes the same head and tail around the
// content of most assistant messages, so one message of each kind is examined by SpanFinder, in an excerpt of the
// conversation made of the messages around it:
//
//   turn       ⟨assistant⟩\n  It rains.⟨end⟩  \n        output of one iteration of the template's loop (JinjaTurn)
//              head           the span        tail
//
// Other messages of the kind reuse head and tail if their turns have both. A kind is given by the roles and keys of the
// message and its two neighbours, and by their position in the conversation. An excerpt is valid only if the turn is
// rendered as in the whole conversation. Borrows everything.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/span_finder.h"

namespace sluice {

// The turn of each of `num_items` items; nullopt: the item has none, or several with text. The turns are in order and
// disjoint; otherwise all are nullopt.
std::vector<std::optional<TextSpan>> turns_of_items(const std::vector<JinjaTurn>& turns, std::size_t num_items);

class RepeatedTurns {
 public:
  RepeatedTurns(const nlohmann::ordered_json& messages, const JinjaOutput& whole, GenerationPromptWish wish,
                const ChatRenderer& render);

  // nullopt: the span cannot be found without rendering the whole conversation.
  std::optional<TextSpan> find(std::size_t idx);

 private:
  // The text between the turn's borders and the span's. A shift is relative to the turn's own begin or end.
  struct Frame {
    std::ptrdiff_t begin_shift = 0;
    std::string head;
    std::ptrdiff_t end_shift = 0;
    std::string tail;
    bool ends_in_blank = false;  // whether the span ends in a blank; blanks after it are not part of it
  };

  std::string kind_of(std::size_t idx) const;
  std::optional<Frame> look_closely(std::size_t idx) const;
  std::optional<TextSpan> apply(const Frame& frame, const TextSpan& turn) const;
  // Whether the text before `end` ends in a blank.
  static bool ends_in_blank(std::string_view text, std::size_t end);
  std::vector<std::size_t> messages_around(std::size_t idx) const;
  std::string find_generation_prompt() const;

  const nlohmann::ordered_json& messages_;
  const std::string& text_;
  GenerationPromptWish wish_;
  const ChatRenderer& render_;
  std::vector<std::optional<TextSpan>> turns_;
  std::vector<std::size_t> shapes_;        // per message: hash of role and keys
  std::vector<std::size_t> last_user_at_;  // per message: the user message at or before it; npos: none
  std::vector<std::size_t> next_user_at_;  // per message: the user message after it; npos: none
  std::string generation_prompt_;
  std::unordered_map<std::string, std::optional<Frame>> frames_;  // by kind; nullopt: needs the whole conversation
};

}  // namespace sluice
