// SPDX-License-Identifier: Apache-2.0
#include "text/assistant_spans.h"

#include <algorithm>
#include <optional>

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::size_t> assistant_messages(const Json& messages) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i]["role"] == "assistant") found.push_back(i);
  }
  return found;
}

}  // namespace

std::vector<AssistantSpan> find_assistant_spans(const Json& messages, const JinjaOutput& whole,
                                                GenerationPromptWish wish, const ChatRenderer& render,
                                                const SpanSearch& search) {
  SpanFinder finder(messages, whole.text, wish, render);
  std::optional<RepeatedTurns> turns;
  if (messages.size() > search.max_messages_at_once) turns.emplace(messages, whole, wish, render);
  std::vector<AssistantSpan> spans;
  for (const std::size_t idx : assistant_messages(messages)) {
    std::optional<TextSpan> span;
    if (turns) span = turns->find(idx);
    if (!span) span = finder.find(idx);
    if (span->begin > span->end || (!spans.empty() && span->begin < spans.back().text.end)) refuse_to_tell(idx);
    if (span->end > span->begin) spans.push_back({*span, idx});
  }
  return spans;
}

std::vector<AssistantSpan> marked_assistant_spans(const Json& messages, const JinjaOutput& whole) {
  const std::vector<std::size_t> speakers = assistant_messages(messages);
  const std::vector<std::optional<TextSpan>> turns = turns_of_items(whole.turns, messages.size());
  std::vector<AssistantSpan> spans;
  std::size_t at = 0;
  for (std::size_t i = 0; i < whole.generated.size(); ++i) {
    const TextSpan& text = whole.generated[i];
    while (at < turns.size() && (!turns[at] || turns[at]->end < text.end)) ++at;
    const bool within = at < turns.size() && turns[at]->begin <= text.begin;
    const bool one_each = whole.generated.size() == speakers.size();
    spans.push_back({text, within ? at : one_each ? speakers[i] : AssistantSpan::kUnknown});
  }
  return spans;
}

}  // namespace sluice
