// SPDX-License-Identifier: Apache-2.0
#include "data/template_losses.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "data/message_parts.h"
#include "data/row_problem.h"

namespace sluice {
namespace {

// A mark is this prefix and a fixed-width number, so no mark is a prefix of another, and a mark is a valid function
// name.
constexpr std::string_view kMark = "Vhxq0zk";
constexpr std::size_t kMarkDigits = 8;
// A template may transform text (to capitals, say), so every missing mark is checked with a further rendering; at most
// this many.
constexpr int kMaxLooks = 8;

enum class MarkedKind { kWords, kThoughts, kFunction, kArguments, kWrittenArguments };

// The message field that a mark replaces.
struct Marked {
  std::size_t message = 0;
  std::size_t nth = 0;  // index among the marks of its message
  MarkedKind kind = MarkedKind::kWords;

  bool is_call() const { return kind != MarkedKind::kWords && kind != MarkedKind::kThoughts; }
};

bool has_words(const RowJson& value) {
  return value.is_string() && value.get_ref<const std::string&>().find_first_not_of(" \t\r\n") != std::string::npos;
}

// The messages with marks in place of their text, the names of called functions, and the arguments.
class MarkedMessages {
 public:
  explicit MarkedMessages(const RowJson& messages) : messages_(messages) {
    for (std::size_t i = 0; i < messages_.size(); ++i) mark_message(i);
  }
  // Replaces one field only.
  MarkedMessages(const RowJson& messages, const Marked& only) : messages_(messages), only_(only) {
    mark_message(only.message);
  }

  const RowJson& messages() const { return messages_; }

  // The marks missing in the text, in order.
  std::vector<Marked> missing(std::string_view text) const {
    std::vector<bool> found(marks_.size(), false);
    for (std::size_t at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark, at + 1)) {
      const std::string_view digits = text.substr(at + kMark.size(), kMarkDigits);
      if (digits.size() < kMarkDigits || digits.find_first_not_of("0123456789") != std::string_view::npos) continue;
      const std::size_t number = std::stoul(std::string(digits));
      if (number < found.size()) found[number] = true;
    }
    std::vector<Marked> missing;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i]) missing.push_back(marks_[i]);
    }
    return missing;
  }

 private:
  void mark_message(std::size_t idx) {
    RowJson& message = messages_[idx];
    nth_ = 0;
    const auto content = message.find("content");
    if (content != message.end() && has_words(*content)) mark_content(*content, idx);
    if (content != message.end() && content->is_array()) {
      for (RowJson& part : *content) {
        if (part.contains("text") && has_words(part["text"])) mark(part["text"], idx, MarkedKind::kWords);
      }
    }
    const auto thoughts = message.find("reasoning_content");
    if (thoughts != message.end() && has_words(*thoughts)) mark(*thoughts, idx, MarkedKind::kThoughts);
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) return;
    for (RowJson& call : *calls) {
      if (!call.is_object()) continue;
      const auto function = call.find("function");
      mark_call(function != call.end() && function->is_object() ? *function : call, idx);
    }
  }

  // Marks thoughts and answer of a content separately, as templates split them.
  void mark_content(RowJson& content, std::size_t idx) {
    constexpr std::string_view kOpen = "<think>";
    constexpr std::string_view kClose = "</think>";
    const std::string whole = content.get<std::string>();
    const std::size_t end = whole.rfind(kClose);
    if (end == std::string::npos) return mark(content, idx, MarkedKind::kWords);
    const std::size_t open = whole.substr(0, end).find(kOpen);
    const std::size_t begin = open == std::string::npos ? 0 : open + kOpen.size();
    RowJson thoughts = whole.substr(begin, end - begin);
    RowJson words = whole.substr(end + kClose.size());
    if (has_words(thoughts)) mark(thoughts, idx, MarkedKind::kThoughts);
    if (has_words(words)) mark(words, idx, MarkedKind::kWords);
    content = whole.substr(0, begin) + thoughts.get<std::string>() + std::string(kClose) + words.get<std::string>();
  }

  void mark_call(RowJson& call, std::size_t idx) {
    const auto name = call.find("name");
    if (name != call.end() && has_words(*name)) mark(*name, idx, MarkedKind::kFunction);
    const auto arguments = call.find("arguments");
    if (arguments == call.end()) return;
    if (arguments->is_object() && !arguments->empty()) mark(*arguments, idx, MarkedKind::kArguments);
    if (has_words(*arguments)) mark(*arguments, idx, MarkedKind::kWrittenArguments);
  }

  void mark(RowJson& place, std::size_t idx, MarkedKind kind) {
    const std::size_t nth = nth_++;
    if (only_ && only_->nth != nth) return;
    const std::string text = fmt::format("{}{:0{}}", kMark, marks_.size(), kMarkDigits);
    marks_.push_back({.message = idx, .nth = nth, .kind = kind});
    const RowJson arguments{{text, text}};
    place = kind == MarkedKind::kArguments          ? arguments
            : kind == MarkedKind::kWrittenArguments ? RowJson(arguments.dump())
                                                    : RowJson(text);
  }

  RowJson messages_;
  std::optional<Marked> only_;
  std::vector<Marked> marks_;
  std::size_t nth_ = 0;
};

// nullopt: the template rejects the variation, which need not be a conversation that it supports.
std::optional<std::string> try_rendering(const ChatTemplate& chat_template, const RowJson& messages,
                                         const RenderOptions& options) {
  try {
    return chat_template.render_text(messages, options);
  } catch (const Cancelled&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool calls_anything(const RowJson& message) {
  return message.contains("tool_calls") && holds_something(message["tool_calls"]);
}

// Throws BadRow if a tool call, an answer or a message that it replies to is lost; adds a note for lost thoughts,
// system messages and text beside tool calls.
void refuse_or_note(const Marked& lost, const Document& document, const RowJson& message, RowLeftovers& leftovers) {
  const std::string role = message["role"].get<std::string>();
  if (lost.kind == MarkedKind::kThoughts) {
    leftovers.add_note("the chat template leaves out thoughts of the assistant");
    return;
  }
  if (lost.is_call()) {
    throw BadRow(document.chat.place_of(lost.message, "tool_calls"),
                 "the chat template does not write tool calls, so the answer would be trained on without them; give a "
                 "chat_template that does, or write the calls into the content");
  }
  if (role == "system" || role == "developer") {
    leftovers.add_note("the chat template does not write what the system says");
  } else if (role == "assistant" && calls_anything(message)) {
    leftovers.add_note("the chat template writes tool calls without the words beside them");
  } else {
    throw BadRow(document.chat.place_of(lost.message, "content"),
                 fmt::format("the chat template does not write what the role {} says here; give a chat_template that "
                             "does",
                             role));
  }
}

void check_messages_are_written(const ChatTemplate& chat_template, const RenderedDocument& rendered,
                                const RenderOptions& options, RowLeftovers& leftovers) {
  const MarkedMessages marked(rendered.messages);
  const std::optional<std::string> text = try_rendering(chat_template, marked.messages(), options);
  if (!text) return;
  int num_looks = 0;
  std::set<std::pair<std::string, MarkedKind>> looked_into;  // by role: messages of one role lose the same fields
  for (const Marked& lost : marked.missing(*text)) {
    const RowJson& message = rendered.messages[lost.message];
    const std::string speaker = message["role"].get<std::string>() + (calls_anything(message) ? " calling" : "");
    if (!looked_into.emplace(speaker, lost.kind).second) continue;
    if (num_looks++ == kMaxLooks) return;
    const MarkedMessages changed(rendered.messages, lost);
    if (try_rendering(chat_template, changed.messages(), options) == rendered.text) {
      refuse_or_note(lost, rendered.document, message, leftovers);
    }
  }
}

// Message keys that templates need not write.
constexpr std::array<std::string_view, 7> kQuietKeys{"role", "content",           "tool_calls", "tool_call_id",
                                                     "id",   "reasoning_content", "type"};

constexpr std::size_t kMaxKeysTried = 8;

void note_unwritten_keys(const ChatTemplate& chat_template, const RenderedDocument& rendered,
                         const RenderOptions& options, RowLeftovers& leftovers) {
  std::unordered_set<std::string> keys;
  for (const RowJson& message : rendered.messages) {
    for (const auto& item : message.items()) {
      const bool quiet = std::find(kQuietKeys.begin(), kQuietKeys.end(), item.key()) != kQuietKeys.end() ||
                         (item.key() == "name" && message["role"] != "user");
      if (!quiet && holds_something(item.value())) keys.insert(item.key());
    }
  }
  std::vector<std::string> sorted(keys.begin(), keys.end());
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() > kMaxKeysTried) sorted.resize(kMaxKeysTried);
  for (const std::string& key : sorted) {
    RowJson without = rendered.messages;
    for (RowJson& message : without) message.erase(key);
    if (try_rendering(chat_template, without, options) != rendered.text) continue;
    leftovers.add_note(fmt::format("the chat template does not write the messages' {}", describe_row_json(key)));
  }
}

void note_unwritten_columns(const ChatTemplate& chat_template, const RenderedDocument& rendered,
                            const RenderOptions& options, RowLeftovers& leftovers) {
  if (!rendered.document.tools.is_null()) {
    RenderOptions without = options;
    without.tools = nullptr;
    const std::optional<std::string> other = try_rendering(chat_template, rendered.messages, without);
    if (other == rendered.text)
      leftovers.add_note("the chat template does not write tools, so the model does not see them");
  }
  if (holds_something(rendered.document.documents) && !chat_template.mentions("documents", options)) {
    leftovers.add_note("the chat template does not write documents, so the model does not see them");
  }
  for (const auto& item : rendered.document.variables.items()) {
    if (chat_template.mentions(item.key(), options)) continue;
    leftovers.add_note(
        fmt::format("the chat template knows no {} (chat_template_kwargs)", describe_row_json(item.key())));
  }
}

}  // namespace

void check_template_losses(const ChatTemplate& chat_template, const RenderedDocument& rendered,
                           const RenderOptions& options, RowLeftovers& leftovers) {
  check_messages_are_written(chat_template, rendered, options, leftovers);
  note_unwritten_columns(chat_template, rendered, options, leftovers);
  note_unwritten_keys(chat_template, rendered, options, leftovers);
}

}  // namespace sluice
