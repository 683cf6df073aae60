// SPDX-License-Identifier: Apache-2.0
// Assigns the text of a rendered conversation to messages: finds the assistant's spans if the template does not mark
// them, and the message of each span that it marks. Short conversations are searched as a whole (SpanFinder), long ones
// turn by turn (RepeatedTurns), in linear time for templates that loop over the messages. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/repeated_turns.h"
#include "text/span_finder.h"

namespace sluice {

struct AssistantSpan {
  static constexpr std::size_t kUnknown = static_cast<std::size_t>(-1);

  TextSpan text;
  std::size_t message = kUnknown;
};

struct SpanSearch {
  std::size_t max_messages_at_once = 12;  // longest conversation searched as a whole
};

// `whole`: the rendering of `messages` with this wish. Throws FormatError if a message's span cannot be determined.
std::vector<AssistantSpan> find_assistant_spans(const nlohmann::ordered_json& messages, const JinjaOutput& whole,
                                                GenerationPromptWish wish, const ChatRenderer& render,
                                                const SpanSearch& search = {});

// The spans of {% generation %} blocks.
std::vector<AssistantSpan> marked_assistant_spans(const nlohmann::ordered_json& messages, const JinjaOutput& whole);

}  // namespace sluice
