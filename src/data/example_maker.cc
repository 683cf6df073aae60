// SPDX-License-Identifier: Apache-2.0
#include "data/example_maker.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/step_limits.h"
#include "data/row_problem.h"
#include "text/utf8.h"

namespace sluice {
namespace {

std::int32_t id_of(TokenId id) {
  CHECK(id <= static_cast<TokenId>(std::numeric_limits<std::int32_t>::max()), "token ids have 31 bits");
  return static_cast<std::int32_t>(id);
}

// Spans are in order and apart; neighbouring tokens may share bytes.
MarkedTokens mark(const Encoding& encoding, const std::vector<TextSpan>& learned) {
  MarkedTokens tokens;
  std::size_t span_idx = 0;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const ByteRange range = encoding.ranges[i];
    while (span_idx < learned.size() && learned[span_idx].end <= range.begin) ++span_idx;
    tokens.add(id_of(encoding.ids[i]), span_idx < learned.size() && learned[span_idx].begin < range.end);
  }
  return tokens;
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
}

void ExampleMaker::require_template_for(const Document& document) const {
  if (text_.chat_template || document.raw) return;
  throw InvalidInput(fmt::format(
      "{} has no chat template, and rows that are conversations need one; give one as chat_template (a Jinja file), "
      "train the model's instruct version, or use rows with text, prompt and completion, or instruction and output",
      text_.folder));
}

MarkedTokens ExampleMaker::tokens_of_chat(const Document& document) const {
  RenderOptions options;
  options.tools = document.tools;
  options.documents = document.documents;
  options.unix_time_s = options_.unix_time_s;
  RenderedChat chat;
  if (options_.learn == Learn::kEverything) {
    chat.text = text_.chat_template->render_text(document.messages, options);
  } else {
    chat = text_.chat_template->render(document.messages, options);
  }
  const std::size_t num_learned = document.num_learned_messages.value_or(chat.assistant.size());
  if (chat.assistant.size() > num_learned) {
    chat.assistant.erase(chat.assistant.begin(), chat.assistant.end() - static_cast<std::ptrdiff_t>(num_learned));
  }
  // The template writes the special tokens.
  return mark(text_.tokenizer->encode_with_ranges(chat.text, AddSpecial::kNo), chat.assistant);
}

MarkedTokens ExampleMaker::tokens_of_raw(const RawText& raw) const {
  require_utf8(raw.prompt, "prompt");
  require_utf8(raw.completion, raw.prompt.empty() ? "text" : "completion");
  const std::string whole = raw.prompt + raw.completion;
  MarkedTokens tokens =
      mark(text_.tokenizer->encode_with_ranges(whole, AddSpecial::kYes), {{raw.prompt.size(), whole.size()}});
  const std::optional<TokenId> eos = text_.tokenizer->eos_id();
  if (!eos) return tokens;
  if (!tokens.ids.empty() && tokens.ids.back() == id_of(*eos)) {
    tokens.learned.back() = true;
  } else {
    tokens.add(id_of(*eos), true);
  }
  return tokens;
}

MarkedTokens ExampleMaker::tokens_of_part(const std::string& part_text, TextPart part) const {
  MarkedTokens tokens;
  const AddSpecial special = part.first ? AddSpecial::kYes : AddSpecial::kNo;
  for (const TokenId id : text_.tokenizer->encode(part_text, special)) tokens.add(id_of(id), true);
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

DocumentExamples ExampleMaker::make(const Document& document) const {
  require_template_for(document);
  const bool chat = !document.messages.is_null() && text_.chat_template;
  MarkedTokens tokens = chat            ? tokens_of_chat(document)
                        : document.part ? tokens_of_part(document.raw->completion, *document.part)
                                        : tokens_of_raw(*document.raw);
  if (options_.learn == Learn::kEverything) tokens.learned.assign(tokens.ids.size(), true);
  DocumentExamples made{.num_tokens = tokens.ids.size()};
  made.truncated = !document.part && tokens.ids.size() > options_.sequence_len;
  for (std::size_t begin = 0; begin < tokens.ids.size(); begin += options_.sequence_len) {
    Example example = make_example(tokens, begin, std::min(begin + options_.sequence_len, tokens.ids.size()));
    if (example.num_labels() > 0) made.examples.push_back(std::move(example));
    if (!document.part) break;
  }
  return made;
}

}  // namespace sluice
