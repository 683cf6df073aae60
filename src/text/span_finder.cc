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

// They share neither their first nor their last letter, so whatever a message says differs from one of them at once.
constexpr std::string_view kStandIns[] = {"Vhxq0zk", "jWy8pQ4"};

std::size_t common_prefix(std::string_view left, std::string_view right) {
  return static_cast<std::size_t>(std::mismatch(left.begin(), left.end(), right.begin(), right.end()).first -
                                  left.begin());
}

std::size_t common_suffix(std::string_view left, std::string_view right) {
  return static_cast<std::size_t>(std::mismatch(left.rbegin(), left.rend(), right.rbegin(), right.rend()).first -
                                  left.rbegin());
}

// Where in the text the longest beginning of `wanted` that is anywhere in it ends, the last time where there are
// several. As Knuth, Morris and Pratt: templates may be long and regular.
std::optional<std::size_t> last_end_of_longest_beginning(std::string_view text, std::string_view wanted) {
  std::vector<std::size_t> shorter(wanted.size() + 1, 0);  // of what matched so far, the next that may go on
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

// Two texts part ways somewhere inside what may be a special token: back to where one may end.
std::string_view whole_tokens(std::string_view text) {
  const std::size_t last = text.find_last_of(" \n>]}");
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

// What both begin with; cut back where neither ends there.
std::string_view shared_start(std::string_view left, std::string_view right) {
  const std::string_view shared = left.substr(0, common_prefix(left, right));
  return shared.size() == left.size() || shared.size() == right.size() ? shared : whole_tokens(shared);
}

// Every string but those that templates act upon.
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

// Nothing where the template refuses the conversation: a variation need not be one that makes sense to it.
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

// The bytes of `whole` that change with message `idx` of `messages`; nothing where none do.
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
  // Without the blanks in front of it, which belong to the turn before and are missing at the start.
  const std::string whole_header = generation_prompt(before, prompt);
  const std::string_view header = strip(whole_header, std::nullopt, TextSides::kLeft);
  if (header.empty()) return own->begin;
  // The header stands between the words of the message before and those of this one. Some templates prompt with more
  // than they leave in old turns, so its longest beginning counts.
  std::size_t from = 0;
  if (idx > 0) {
    const std::optional<TextSpan> previous = dependent(idx - 1);
    if (previous && previous->end <= own->begin) from = previous->end;
  }
  const std::string_view between = std::string_view(text_).substr(from, own->begin - std::min(from, own->begin));
  const std::optional<std::size_t> end = last_end_of_longest_beginning(between, header);
  return end ? std::optional<std::size_t>(from + *end) : std::nullopt;
}

// What asking for the assistant's turn adds to the messages before it.
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
  // A message that changes nothing it is made of: all it adds is the template's.
  if (!last || !text_.starts_with(*last)) return own ? std::optional<std::size_t>(own->end) : std::nullopt;
  return strip(*last, std::nullopt, TextSides::kRight).size();
}

// How much of the text from `at` ends the turn: what follows message idx in `last`, where nothing comes after it
// (from `last_at`), also where the assistant is asked to go on, and here; less the blanks behind it.
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
