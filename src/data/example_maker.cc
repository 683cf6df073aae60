// SPDX-License-Identifier: Apache-2.0
#include "data/example_maker.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/step_limits.h"
#include "data/message_parts.h"
#include "data/row_problem.h"
#include "data/template_losses.h"
#include "text/utf8.h"

namespace sluice {
namespace {

enum class Marks { kLearned, kLeftOut };

std::int32_t id_of(TokenId id) {
  CHECK(id <= static_cast<TokenId>(std::numeric_limits<std::int32_t>::max()), "token ids have 31 bits");
  return static_cast<std::int32_t>(id);
}

// Spans are in order and apart; neighbouring tokens may share bytes.
MarkedTokens mark(const Encoding& encoding, const std::vector<TextSpan>& spans, Marks marks) {
  MarkedTokens tokens;
  std::size_t span_idx = 0;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const ByteRange range = encoding.ranges[i];
    while (span_idx < spans.size() && spans[span_idx].end <= range.begin) ++span_idx;
    const bool within = span_idx < spans.size() && spans[span_idx].begin < range.end;
    tokens.add(id_of(encoding.ids[i]), within == (marks == Marks::kLearned));
  }
  return tokens;
}

// The assistant's spans whose tokens are targets, or with Marks::kLeftOut those that are excluded.
std::vector<TextSpan> chosen_spans(const RenderedChat& chat, const Document& document, Marks marks) {
  const std::vector<std::size_t>& untrained = document.chat.untrained;
  if (untrained.empty() && !document.num_learned_messages)
    return marks == Marks::kLearned ? chat.assistant : std::vector<TextSpan>();
  std::size_t first_learned = 0;
  if (document.num_learned_messages && marks == Marks::kLearned) {
    std::size_t num_left = *document.num_learned_messages;
    for (first_learned = document.chat.list.size(); first_learned > 0 && num_left > 0; --first_learned) {
      if (document.chat.list[first_learned - 1]["role"] == "assistant") --num_left;
    }
  }
  std::vector<TextSpan> chosen;
  for (std::size_t i = 0; i < chat.assistant.size(); ++i) {
    const std::size_t message = chat.assistant_messages[i];
    if (message == RenderedChat::kUnknownMessage) {
      throw BadRow(
          document.chat.places.empty() ? "" : document.chat.places.front().first,
          "some messages are not to be trained on, and the chat template's {% generation %} blocks do not tell "
          "which text is whose; write one block for each of the assistant's messages");
    }
    const bool left_out = message < first_learned || std::binary_search(untrained.begin(), untrained.end(), message);
    if (left_out == (marks == Marks::kLeftOut)) chosen.push_back(chat.assistant[i]);
  }
  return chosen;
}

// Checks the messages' own training flags against `learn`, and notes empty answers.
void check_training_wishes(const Document& document, Learn learn, RowLeftovers& leftovers) {
  if (learn == Learn::kAnswers && !document.chat.trained_others.empty()) {
    throw BadRow(document.chat.place_of(document.chat.trained_others.front()),
                 "the message wants to be trained on and is not the assistant's; take that out of it, or train on "
                 "everything (train_on_inputs)");
  }
  for (std::size_t i = 0; i < document.chat.list.size(); ++i) {
    const RowJson& message = document.chat.list[i];
    if (message["role"] != "assistant" || (message.contains("tool_calls") && holds_something(message["tool_calls"])))
      continue;
    if (!message.contains("content") || !holds_something(message["content"])) {
      leftovers.add_note("an answer of the assistant is empty; it is trained on as it is");
      return;
    }
  }
}

// The messages in the form that the template expects; nullopt: they already have it.
std::optional<RowJson> as_the_template_takes_them(const RowMessages& chat, const TemplateForm& form) {
  const bool joins = chat.any_parts && !form.takes_parts;
  const bool reads = chat.any_written_arguments && form.wants_objects;
  const bool quiets = chat.any_wordless_calls && form.wordless;
  if (!joins && !reads && !quiets) return std::nullopt;
  RowJson messages = chat.list;
  for (RowJson& message : messages) {
    if (reads) read_arguments(message);
    if (quiets && is_wordless_call(message)) message["content"] = *form.wordless;
    const auto content = message.find("content");
    if (joins && content != message.end() && content->is_array()) *content = RowJson(joined_parts(*content));
  }
  return messages;
}

constexpr std::string_view kProbe = "Vhxq0zk";

// The rendered text; empty if the template fails or does not write the probe.
std::string probe_template(const ChatTemplate& chat_template, const RowJson& messages) {
  try {
    std::string text = chat_template.render_text(messages, {});
    return text.find(kProbe) != std::string::npos ? text : "";
  } catch (const Error&) {
    return "";
  }
}

// Whether the template writes the text of a content given as a list of parts, rather than the list itself.
bool takes_parts(const ChatTemplate& chat_template) {
  const RowJson parts = RowJson::array({RowJson{{"type", "text"}, {"text", kProbe}}});
  const std::string text =
      probe_template(chat_template, RowJson::array({RowJson{{"role", "user"}, {"content", parts}}}));
  return !text.empty() && text.find("'type'") == std::string::npos && text.find("\"type\"") == std::string::npos;
}

// Renders a tool call with these arguments and this content; empty as probe_template().
std::string probe_call(const ChatTemplate& chat_template, const RowJson& arguments, const RowJson& content) {
  const RowJson call{
      {"id", "abcdefgh1"}, {"type", "function"}, {"function", RowJson{{"name", "f"}, {"arguments", arguments}}}};
  const RowJson answer{{"role", "assistant"}, {"content", content}, {"tool_calls", RowJson::array({call})}};
  return probe_template(chat_template, RowJson::array({RowJson{{"role", "user"}, {"content", "q"}}, answer}));
}

// Whether the template serializes a call's arguments to JSON itself: arguments given as a JSON string would be escaped
// twice.
bool wants_objects(const ChatTemplate& chat_template, const RowJson& content) {
  const RowJson arguments{{std::string(kProbe), 1}};
  const std::string written = probe_call(chat_template, arguments.dump(), content);
  const bool is_escaped = written.find("\\\"" + std::string(kProbe)) != std::string::npos;
  return (written.empty() || is_escaped) && !probe_call(chat_template, arguments, content).empty();
}

// The content for a message with tool calls alone that the template renders: "" or null; nullopt: neither. Some
// templates search any content for thoughts or print null as None, and some detect a tool call by a null content.
std::optional<RowJson> wordless_content(const ChatTemplate& chat_template) {
  const RowJson arguments{{std::string(kProbe), 1}};
  for (const RowJson& content : {RowJson(""), RowJson(nullptr)}) {
    for (const RowJson& form : {arguments, RowJson(arguments.dump())}) {
      const std::string text = probe_call(chat_template, form, content);
      if (!text.empty() && text.find("None") == std::string::npos) return content;
    }
  }
  return std::nullopt;
}

TemplateForm try_template(const ChatTemplate& chat_template) {
  TemplateForm form{.takes_parts = takes_parts(chat_template), .wordless = wordless_content(chat_template)};
  form.wants_objects = wants_objects(chat_template, form.wordless.value_or(""));
  return form;
}

void require_utf8(const std::string& text, const char* key) {
  if (!is_utf8(text)) throw BadRow(key, "the text is not UTF-8; save the file as UTF-8");
}

}  // namespace

ExampleMaker::ExampleMaker(const ModelText& text, ExampleOptions options) : text_(text), options_(options) {
  if (options_.sequence_len < kMinSequenceLen || options_.sequence_len > kMaxSequenceLen) {
    throw InvalidInput(fmt::format("the sequence length must be from {} to {} tokens, got {}", kMinSequenceLen,
                                   kMaxSequenceLen, options_.sequence_len));
  }
  if (text_.chat_template) form_ = try_template(*text_.chat_template);
}

void ExampleMaker::require_template_for(const Document& document) const {
  if (text_.chat_template || document.raw) return;
  throw InvalidInput(fmt::format(
      "{} has no chat template, and rows that are conversations need one; give one as chat_template (a Jinja file), "
      "train the model's instruct version, or use rows with text, prompt and completion, or instruction and output",
      text_.folder));
}

MarkedTokens ExampleMaker::tokens_of_chat(const Document& document, const Interrupted& interrupted,
                                          RowLeftovers& leftovers) const {
  RenderOptions options;
  options.tools = document.tools;
  options.documents = document.documents;
  options.variables = document.variables;
  options.unix_time_s = options_.unix_time_s;
  options.limits.interrupted = interrupted;
  check_training_wishes(document, options_.learn, leftovers);
  const std::optional<RowJson> changed = as_the_template_takes_them(document.chat, form_);
  const RowJson& messages = changed ? *changed : document.chat.list;
  const Marks marks = options_.learn == Learn::kEverything ? Marks::kLeftOut : Marks::kLearned;
  // Before the spans are found: a message that the template leaves out has no span.
  const std::string text = text_.chat_template->render_text(messages, options);
  check_template_losses(*text_.chat_template, {.document = document, .messages = messages, .text = text}, options,
                        leftovers);
  RenderedChat chat{.text = text};
  if (marks == Marks::kLearned || !document.chat.untrained.empty())
    chat = text_.chat_template->render(messages, options);
  // The template writes the special tokens.
  return mark(text_.tokenizer->encode_with_ranges(chat.text, AddSpecial::kNo, interrupted),
              chosen_spans(chat, document, marks), marks);
}

MarkedTokens ExampleMaker::tokens_of_raw(const RawText& raw, const Interrupted& interrupted) const {
  require_utf8(raw.prompt, "prompt");
  require_utf8(raw.completion, raw.prompt.empty() ? "text" : "completion");
  const std::string whole = raw.prompt + raw.completion;
  MarkedTokens tokens = mark(text_.tokenizer->encode_with_ranges(whole, AddSpecial::kYes, interrupted),
                             {{raw.prompt.size(), whole.size()}}, Marks::kLearned);
  const std::optional<TokenId> eos = text_.tokenizer->eos_id();
  if (!eos) return tokens;
  if (!tokens.ids.empty() && tokens.ids.back() == id_of(*eos)) {
    tokens.learned.back() = true;
  } else {
    tokens.add(id_of(*eos), true);
  }
  return tokens;
}

MarkedTokens ExampleMaker::tokens_of_part(const std::string& part_text, TextPart part,
                                          const Interrupted& interrupted) const {
  MarkedTokens tokens;
  const AddSpecial special = part.first ? AddSpecial::kYes : AddSpecial::kNo;
  for (const TokenId id : text_.tokenizer->encode(part_text, special, interrupted)) tokens.add(id_of(id), true);
  const std::optional<TokenId> eos = text_.tokenizer->eos_id();
  if (!eos) return tokens;
  const bool ends = !tokens.ids.empty() && tokens.ids.back() == id_of(*eos);
  if (part.last && !ends) tokens.add(id_of(*eos), true);
  if (!part.last && ends) {
    tokens.ids.pop_back();
    tokens.learned.pop_back();
  }
  return tokens;
}

DocumentExamples ExampleMaker::make(const Document& document, const Interrupted& interrupted) const {
  require_template_for(document);
  const bool chat = !document.chat.list.is_null() && text_.chat_template;
  DocumentExamples made{.leftovers = document.leftovers};
  MarkedTokens tokens = chat            ? tokens_of_chat(document, interrupted, made.leftovers)
                        : document.part ? tokens_of_part(document.raw->completion, *document.part, interrupted)
                                        : tokens_of_raw(*document.raw, interrupted);
  if (options_.learn == Learn::kEverything && !chat) tokens.learned.assign(tokens.ids.size(), true);
  made.num_tokens = tokens.ids.size();
  made.truncated = !document.part && tokens.ids.size() > options_.sequence_len;
  for (std::size_t begin = 0; begin < tokens.ids.size(); begin += options_.sequence_len) {
    Example example = make_example(tokens, begin, std::min(begin + options_.sequence_len, tokens.ids.size()));
    if (example.num_labels() > 0) made.examples.push_back(std::move(example));
    if (!document.part) break;
  }
  return made;
}

}  // namespace sluice
