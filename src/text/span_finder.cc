// SPDX-License-Identifier: Apache-2.0
#include "text/span_finder.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "text/python_text.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Two replacement texts that share neither first nor last letter, so any content differs from one of them at both ends.
constexpr std::string_view kStandIns[] = {"Vhxq0zk", "jWy8pQ4"};

std::size_t common_prefix(std::string_view left, std::string_view right) {
  return static_cast<std::size_t>(std::mismatch(left.begin(), left.end(), right.begin(), right.end()).first -
                                  left.begin());
}

std::size_t common_suffix(std::string_view left, std::string_view right) {
  return static_cast<std::size_t>(std::mismatch(left.rbegin(), left.rend(), right.rbegin(), right.rend()).first -
                                  left.rbegin());
}

// The end of the last occurrence in `text` of the longest prefix of `wanted` that occurs there. Knuth-Morris-Pratt, as
// templates may produce long, periodic text.
std::optional<std::size_t> last_end_of_longest_beginning(std::string_view text, std::string_view wanted) {
  std::vector<std::size_t> shorter(wanted.size() + 1, 0);  // failure function: longest proper border of each prefix
  const auto follow = [&](std::size_t size, char letter) {
    while (size > 0 && (size == wanted.size() || wanted[size] != letter)) size = shorter[size];
    return wanted[size] == letter ? size + 1 : size;
  };
  for (std::size_t at = 1; at < wanted.size(); ++at) shorter[at + 1] = follow(shorter[at], wanted[at]);
  std::optional<std::size_t> end;
  std::size_t size = 0;
  std::size_t longest = 1;
  for (std::size_t at = 0; at < text.size(); ++at) {
    size = follow(size, text[at]);
    if (size < longest) continue;
    longest = size;
    end = at + 1;
  }
  return end;
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Cuts back to the last place where a special token may end: two texts may diverge inside a token.
std::string_view whole_tokens(std::string_view text) {
  const std::size_t last = text.find_last_of(" \n>]}");
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

// The common prefix; cut back to whole tokens unless one of the texts ends there.
std::string_view shared_start(std::string_view left, std::string_view right) {
  const std::string_view shared = left.substr(0, common_prefix(left, right));
  return shared.size() == left.size() || shared.size() == right.size() ? shared : whole_tokens(shared);
}

// Replaces every string but the values of keys that templates branch on.
void replace_strings(Json& value, std::string_view key, std::string_view stand_in) {
  if (key == "role" || key == "type" || key == "id" || key == "tool_call_id") return;
  if (value.is_string()) {
    value = stand_in;
  } else if (value.is_array()) {
    for (Json& item : value) replace_strings(item, key, stand_in);
  } else if (value.is_object()) {
    for (const auto& item : value.items()) replace_strings(item.value(), item.key(), stand_in);
  }
}

}  // namespace

void refuse_to_tell(std::size_t idx) {
  throw FormatError(
      fmt::format("the chat template does not let the words of message {} be told from its own; mark "
                  "them with {{% generation %}} and {{% endgeneration %}} in the template",
                  idx));
}

// nullopt: the template rejects the conversation; a variation need not be one that it supports.
std::optional<std::string> SpanFinder::try_render(const Json& messages, GenerationPromptWish wish) const {
  try {
    return render_(messages, wish).text;
  } catch (const Cancelled&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;
  }
}

Json SpanFinder::first_messages(std::size_t count) const {
  return Json(messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(count));
}

std::optional<TextSpan> SpanFinder::dependent(std::size_t idx) const { return dependent(messages_, text_, wish_, idx); }

// The bytes of `whole` that depend on message `idx` of `messages`; nullopt: none do.
std::optional<TextSpan> SpanFinder::dependent(const Json& messages, const std::string& whole, GenerationPromptWish wish,
                                              std::size_t idx) const {
  TextSpan span{whole.size(), 0};
  bool any = false;
  for (const std::string_view stand_in : kStandIns) {
    Json changed = messages;
    replace_strings(changed[idx], "", stand_in);
    const std::optional<std::string> other = try_render(changed, wish);
    if (!other || *other == whole) continue;
    any = true;
    const std::size_t before = common_prefix(whole, *other);
    const std::size_t shorter = std::min(whole.size(), other->size());
    const std::size_t after = std::min(common_suffix(whole, *other), shorter - before);
    span.begin = std::min(span.begin, before);
    span.end = std::max(span.end, whole.size() - after);
  }
  if (!any) return std::nullopt;
  while (span.begin > 0 && span.begin < whole.size() && continues_character(whole[span.begin])) --span.begin;
  while (span.end < whole.size() && continues_character(whole[span.end])) ++span.end;
  return span;
}

TextSpan SpanFinder::find(std::size_t idx) {
  const std::optional<TextSpan> own = dependent(idx);
  const std::optional<std::size_t> begin = find_begin(idx, own);
  if (!begin) refuse_to_tell(idx);
  const std::optional<std::size_t> end = find_end(idx, own);
  if (!end) refuse_to_tell(idx);
  const TextSpan span{*begin, std::max(*begin, *end)};
  if (!begin_is_sure_ && idx + 1 < messages_.size()) {
    const std::optional<TextSpan> next = dependent(idx + 1);
    if (next && next->begin < span.end) refuse_to_tell(idx);
  }
  return span;
}

std::optional<std::size_t> SpanFinder::find_begin(std::size_t idx, const std::optional<TextSpan>& own) {
  const Json before = first_messages(idx);
  const std::optional<std::string> prompt = try_render(before, GenerationPromptWish::kAdd);
  begin_is_sure_ = prompt && text_.starts_with(*prompt);
  if (begin_is_sure_) return prompt->size();
  if (!own) return std::nullopt;
  // Strips leading blanks, which belong to the previous turn and are missing at the start of a conversation.
  const std::string whole_header = generation_prompt(before, prompt);
  const std::string_view header = strip(whole_header, std::nullopt, TextSides::kLeft);
  if (header.empty()) return own->begin;
  // The header lies between the content of the previous message and of this one. Some templates write a longer
  // generation prompt than they keep in old turns, so the header's longest prefix is searched.
  std::size_t from = 0;
  if (idx > 0) {
    const std::optional<TextSpan> previous = dependent(idx - 1);
    if (previous && previous->end <= own->begin) from = previous->end;
  }
  const std::string_view between = std::string_view(text_).substr(from, own->begin - std::min(from, own->begin));
  const std::optional<std::size_t> end = last_end_of_longest_beginning(between, header);
  return end ? std::optional<std::size_t>(from + *end) : std::nullopt;
}

// The text that add_generation_prompt appends after `before`.
std::string SpanFinder::generation_prompt(const Json& before, const std::optional<std::string>& prompted) const {
  const auto difference = [](const std::optional<std::string>& with, const std::optional<std::string>& without) {
    return with && without && with->starts_with(*without) ? std::optional<std::string>(with->substr(without->size()))
                                                          : std::nullopt;
  };
  if (const auto header = difference(prompted, try_render(before, GenerationPromptWish::kNone))) return *header;
  const auto header =
      difference(try_render(messages_, GenerationPromptWish::kAdd), try_render(messages_, GenerationPromptWish::kNone));
  return header.value_or("");
}

std::optional<std::size_t> SpanFinder::find_end(std::size_t idx, const std::optional<TextSpan>& own) const {
  const Json until = first_messages(idx + 1);
  const std::optional<std::string> last = try_render(until, GenerationPromptWish::kNone);
  if (own && last) {
    const std::optional<TextSpan> own_last = dependent(until, *last, GenerationPromptWish::kNone, idx);
    if (own_last) return own->end + turn_end(until, *last, own_last->end, own->end);
  }
  // No byte depends on the message's content: the template itself writes the whole turn.
  if (!last || !text_.starts_with(*last)) return own ? std::optional<std::size_t>(own->end) : std::nullopt;
  return strip(*last, std::nullopt, TextSides::kRight).size();
}

// Length of the text from `at` that ends the turn: the common prefix of the text after message idx in `last` (from
// `last_at`, with no message after it), in `last` with a generation prompt, and here; without trailing blanks.
std::size_t SpanFinder::turn_end(const Json& until, const std::string& last, std::size_t last_at,
                                 std::size_t at) const {
  std::string_view tail = std::string_view(last).substr(last_at);
  const std::optional<std::string> prompted = try_render(until, GenerationPromptWish::kAdd);
  if (prompted && prompted->starts_with(std::string_view(last).substr(0, last_at))) {
    tail = shared_start(tail, std::string_view(*prompted).substr(last_at));
  }
  tail = shared_start(tail, std::string_view(text_).substr(at));
  return strip(tail, std::nullopt, TextSides::kRight).size();
}

}  // namespace sluice
