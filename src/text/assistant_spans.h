// SPDX-License-Identifier: Apache-2.0
// Which part of a rendered conversation is whose: the assistant's spans where the template does not mark them, and the
// message of each span that it does mark. Short conversations are looked at as a whole (SpanFinder), long ones by turns
// (RepeatedTurns), which takes linear time with templates that go over the messages in a loop. Pure.
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
  std::size_t max_messages_at_once = 12;  // of a conversation that is looked at as a whole
};

// `whole` is what `messages` were rendered to with this wish. Throws FormatError where a message's part of it cannot be
// told.
std::vector<AssistantSpan> find_assistant_spans(const nlohmann::ordered_json& messages, const JinjaOutput& whole,
                                                GenerationPromptWish wish, const ChatRenderer& render,
                                                const SpanSearch& search = {});

// The spans of {% generation %} blocks.
std::vector<AssistantSpan> marked_assistant_spans(const nlohmann::ordered_json& messages, const JinjaOutput& whole);

}  // namespace sluice
