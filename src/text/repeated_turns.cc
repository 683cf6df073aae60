// SPDX-License-Identifier: Apache-2.0
#include "text/repeated_turns.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNobody = static_cast<std::size_t>(-1);
// Messages before and after the examined one in an excerpt, extended to whole exchanges.
constexpr std::size_t kMessagesAround = 4;
constexpr std::size_t kMostMessagesAround = 64;

bool is_user(const Json& message) { return message["role"] == "user"; }
bool is_system(const Json& message) { return message["role"] == "system" || message["role"] == "developer"; }

// Hash of the message properties that templates test: the role, which keys it has, whether they are empty, and thoughts
// in its text.
std::size_t shape_of(const Json& message) {
  std::string shape;
  for (const auto& item : message.items()) {
    const Json& value = item.value();
    const bool says_role = item.key() == "role" && value.is_string();
    const bool holds_thoughts =
        value.is_string() && value.get_ref<const std::string&>().find("</think>") != std::string::npos;
    shape +=
        fmt::format("{}:{}{}{}{};", item.key(), says_role ? value.get_ref<const std::string&>() : "",
                    static_cast<int>(value.type()),
                    value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty(), holds_thoughts);
  }
  return std::hash<std::string>{}(shape);
}

}  // namespace

std::vector<std::optional<TextSpan>> turns_of_items(const std::vector<JinjaTurn>& turns, std::size_t num_items) {
  std::vector<std::optional<TextSpan>> found(num_items);
  std::vector<bool> several(num_items, false);
  for (const JinjaTurn& turn : turns) {
    std::optional<TextSpan>& place = found[turn.item];
    const bool empty = turn.text.begin == turn.text.end;
    const bool was_empty = !place || place->begin == place->end;
    if (!empty && !was_empty) several[turn.item] = true;
    if (!empty || was_empty) place = turn.text;  // ignores loops over the messages that write nothing
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < num_items; ++i) {
    if (several[i]) found[i].reset();
    if (!found[i]) continue;
    if (found[i]->begin < at) return std::vector<std::optional<TextSpan>>(num_items);
    at = found[i]->end;
  }
  return found;
}

RepeatedTurns::RepeatedTurns(const Json& messages, const JinjaOutput& whole, GenerationPromptWish wish,
                             const ChatRenderer& render)
    : messages_(messages),
      text_(whole.text),
      wish_(wish),
      render_(render),
      turns_(turns_of_items(whole.turns, messages.size())),
      last_user_at_(messages.size(), kNobody),
      next_user_at_(messages.size(), kNobody) {
  shapes_.reserve(messages.size());
  for (const Json& message : messages) shapes_.push_back(shape_of(message));
  std::size_t user = kNobody;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (is_user(messages[i])) user = i;
    last_user_at_[i] = user;
  }
  user = kNobody;
  for (std::size_t i = messages.size(); i-- > 0;) {
    next_user_at_[i] = user;
    if (is_user(messages[i])) user = i;
  }
  generation_prompt_ = find_generation_prompt();
}

// The generation prompt after the first user message; used only to tell kinds apart.
std::string RepeatedTurns::find_generation_prompt() const {
  const auto first = std::find_if(messages_.begin(), messages_.end(), is_user);
  if (first == messages_.end()) return "";
  const Json opening(messages_.begin(), first + 1);
  try {
    const std::string with = render_(opening, GenerationPromptWish::kAdd).text;
    const std::string without = render_(opening, GenerationPromptWish::kNone).text;
    return with.starts_with(without) ? with.substr(without.size()) : "";
  } catch (const Cancelled&) {
    throw;
  } catch (const Error&) {
    return "";
  }
}

std::string RepeatedTurns::kind_of(std::size_t idx) const {
  const std::size_t before = idx > 0 ? shapes_[idx - 1] : 0;
  const std::size_t behind = idx + 1 < shapes_.size() ? shapes_[idx + 1] : 0;
  const std::string_view written = std::string_view(text_).substr(turns_[idx]->begin);
  const auto prompt_end =
      std::mismatch(generation_prompt_.begin(), generation_prompt_.end(), written.begin(), written.end()).first;
  return fmt::format("{} {} {} {} {} {} {}", before, shapes_[idx], behind, prompt_end - generation_prompt_.begin(),
                     std::min<std::size_t>(idx, 3), next_user_at_[idx] == kNobody, idx + 1 == shapes_.size());
}

// Indices of the excerpt's messages: the system messages, and whole exchanges, if they are short, from a user message
// to after the next one.
std::vector<std::size_t> RepeatedTurns::messages_around(std::size_t idx) const {
  std::vector<std::size_t> kept;
  const auto keep = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = kept.empty() ? begin : std::max(begin, kept.back() + 1); i < end; ++i) kept.push_back(i);
  };
  std::size_t num_system = 0;
  while (num_system < idx && is_system(messages_[num_system])) ++num_system;
  keep(0, num_system);

  std::size_t begin = std::max(num_system, idx - std::min(idx, kMessagesAround));
  if (begin > num_system) {
    const std::size_t user = last_user_at_[begin];
    if (user != kNobody && user >= num_system && idx - user <= kMostMessagesAround) {
      begin = user;
    } else {
      // A long exchange of tool calls: its user message, and the turns from an assistant message on.
      if (user != kNobody && user >= num_system) keep(user, user + 1);
      while (begin < idx && messages_[begin]["role"] != "assistant") ++begin;
    }
  }
  const std::size_t user = next_user_at_[idx];
  std::size_t end = std::min(idx + 1 + kMessagesAround, messages_.size());
  if (user != kNobody && user - idx <= kMostMessagesAround) end = std::min(std::max(end, user + 2), messages_.size());
  keep(begin, end);
  if (user != kNobody && user >= end) keep(user, std::min(user + 2, messages_.size()));
  return kept;
}

std::optional<RepeatedTurns::Frame> RepeatedTurns::look_closely(std::size_t idx) const {
  const std::vector<std::size_t> kept = messages_around(idx);
  Json around = Json::array();
  std::size_t own = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == idx) own = i;
    around.push_back(messages_[kept[i]]);
  }
  const bool is_last = idx + 1 == messages_.size();
  if (is_last != (own + 1 == kept.size())) return std::nullopt;
  JinjaOutput excerpt;
  TextSpan span;
  try {
    excerpt = render_(around, wish_);
    span = SpanFinder(around, excerpt.text, wish_, render_).find(own);
  } catch (const Cancelled&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;  // falls back to the whole conversation
  }
  const std::optional<TextSpan> turn = turns_of_items(excerpt.turns, kept.size())[own];
  if (!turn) return std::nullopt;
  const std::string_view text = excerpt.text;
  const std::string_view written = text.substr(turn->begin, turn->end - turn->begin);
  if (written != std::string_view(text_).substr(turns_[idx]->begin, turns_[idx]->end - turns_[idx]->begin)) {
    return std::nullopt;
  }
  const auto between = [&](std::size_t left, std::size_t right) {
    return std::string(text.substr(std::min(left, right), std::max(left, right) - std::min(left, right)));
  };
  return Frame{.begin_shift = static_cast<std::ptrdiff_t>(span.begin) - static_cast<std::ptrdiff_t>(turn->begin),
               .head = between(span.begin, turn->begin),
               .end_shift = static_cast<std::ptrdiff_t>(span.end) - static_cast<std::ptrdiff_t>(turn->end),
               .tail = between(span.end, turn->end),
               .ends_in_blank = ends_in_blank(text, span.end)};
}

// nullopt: the turn does not have the frame's head and tail.
std::optional<TextSpan> RepeatedTurns::apply(const Frame& frame, const TextSpan& turn) const {
  const auto shifted = [&](std::size_t at, std::ptrdiff_t shift,
                           const std::string& text) -> std::optional<std::size_t> {
    const std::ptrdiff_t to = static_cast<std::ptrdiff_t>(at) + shift;
    if (to < 0 || to > static_cast<std::ptrdiff_t>(text_.size())) return std::nullopt;
    const std::size_t begin = std::min(at, static_cast<std::size_t>(to));
    if (text_.compare(begin, text.size(), text) != 0) return std::nullopt;
    return static_cast<std::size_t>(to);
  };
  const std::optional<std::size_t> begin = shifted(turn.begin, frame.begin_shift, frame.head);
  const std::optional<std::size_t> end = shifted(turn.end, frame.end_shift, frame.tail);
  if (!begin || !end || *begin > *end || ends_in_blank(text_, *end) != frame.ends_in_blank) return std::nullopt;
  return TextSpan{*begin, *end};
}

bool RepeatedTurns::ends_in_blank(std::string_view text, std::size_t end) {
  return end > 0 && std::string_view(" \t\r\n").find(text[end - 1]) != std::string_view::npos;
}

std::optional<TextSpan> RepeatedTurns::find(std::size_t idx) {
  if (!turns_[idx]) return std::nullopt;
  const std::string kind = kind_of(idx);
  const auto known = frames_.find(kind);
  if (known != frames_.end() && known->second) {
    if (const auto span = apply(*known->second, *turns_[idx])) return span;
  }
  // The first turn of its kind, or one that the kind's frame does not fit.
  const std::optional<Frame> own = look_closely(idx);
  if (known == frames_.end()) frames_.emplace(kind, own);
  return own ? apply(*own, *turns_[idx]) : std::nullopt;
}

}  // namespace sluice
