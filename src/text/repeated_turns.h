// SPDX-License-Identifier: Apache-2.0
// Finds the assistant's spans in long conversations in linear time. A template writes most turns alike: what it puts
// before and behind the words of one assistant message, it puts around those of the next. So one message of each kind
// is looked at closely (SpanFinder), in a short conversation made of the messages around it:
//
//   turn       ⟨assistant⟩\n  It rains.⟨end⟩  \n        what one iteration of the template's loop wrote (JinjaTurn)
//              head           the span        tail
//
// Other messages of that kind take head and tail over, where their turns have both. A kind is who speaks before and
// after, which keys the three messages have, and where in the conversation they stand. A short conversation counts only
// if the turn reads the same in it as in the whole. Borrows everything.
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

// The turn of each of `num_items` items; nothing where an item has none, or several with text. In order and apart, or
// all nothing.
std::vector<std::optional<TextSpan>> turns_of_items(const std::vector<JinjaTurn>& turns, std::size_t num_items);

class RepeatedTurns {
 public:
  RepeatedTurns(const nlohmann::ordered_json& messages, const JinjaOutput& whole, GenerationPromptWish wish,
                const ChatRenderer& render);

  // Nothing where only the whole conversation can tell.
  std::optional<TextSpan> find(std::size_t idx);

 private:
  // What surrounds the words. A shift is counted from the turn's own begin or end; the text lies between the two.
  struct Frame {
    std::ptrdiff_t begin_shift = 0;
    std::string head;
    std::ptrdiff_t end_shift = 0;
    std::string tail;
    bool ends_in_blank = false;  // the words: blanks behind the end of a turn are not among them
  };

  std::string kind_of(std::size_t idx) const;
  std::optional<Frame> look_closely(std::size_t idx) const;
  std::optional<TextSpan> apply(const Frame& frame, const TextSpan& turn) const;
  // Whether the text before this place ends in a blank.
  static bool ends_in_blank(std::string_view text, std::size_t end);
  std::vector<std::size_t> messages_around(std::size_t idx) const;
  std::string find_generation_prompt() const;

  const nlohmann::ordered_json& messages_;
  const std::string& text_;
  GenerationPromptWish wish_;
  const ChatRenderer& render_;
  std::vector<std::optional<TextSpan>> turns_;
  std::vector<std::size_t> shapes_;        // of each message: a hash of its role and of which keys it has
  std::vector<std::size_t> last_user_at_;  // at or before each message; npos where there is none
  std::vector<std::size_t> next_user_at_;  // behind each message
  std::string generation_prompt_;
  std::unordered_map<std::string, std::optional<Frame>> frames_;  // by kind; nothing: the whole has to be looked at
};

}  // namespace sluice
