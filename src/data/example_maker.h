// SPDX-License-Identifier: Apache-2.0
// Documents to examples: conversations through the model's chat template, raw text as it is, then its tokenizer, then
// the labels. Borrows the model's text. Const use is safe from many threads.
//
// Target tokens are those of the assistant's messages and of the end of its turn, unless a message's training flag says
// otherwise; of raw text, the completion and the end-of-text token. A token with any byte in such a span is a target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/example.h"
#include "data/model_text.h"
#include "data/row_document.h"
#include "data/row_notes.h"

namespace sluice {

enum class Learn { kAnswers, kEverything };

// Returns true once the user has asked to stop; empty: not cancellable.
using Interrupted = std::function<bool()>;

struct ExampleOptions {
  std::size_t sequence_len = 2048;
  Learn learn = Learn::kAnswers;
  // The present, for templates that write the date. Part of what examples are made of: a run that is to be repeated
  // fixes it.
  std::int64_t unix_time_s = 0;
};

struct DocumentExamples {
  std::vector<Example> examples;  // several only for plain text files, none where nothing is left to learn
  std::size_t num_tokens = 0;     // before anything was cut off
  bool truncated = false;
  RowLeftovers leftovers;  // content of the document that the examples leave out
};

// Message forms that a chat template accepts, found by rendering probes.
struct TemplateForm {
  bool takes_parts = false;    // content may be a list of parts
  bool wants_objects = false;  // call arguments must be objects, not JSON strings
  std::optional<RowJson> wordless =
      {};  // content of a message with tool calls alone: "" or null; nullopt: left as it is
};

class ExampleMaker {
 public:
  // Throws InvalidInput where the sequence length makes no sense.
  ExampleMaker(const ModelText& text, ExampleOptions options);

  // A document longer than the sequence length is truncated; a plain text file continues in the next example. Throws
  // BadRow; FormatError or InvalidInput if the template or the tokenizer rejects the document, or the template leaves
  // out the assistant's text; Cancelled.
  DocumentExamples make(const Document& document, const Interrupted& interrupted = {}) const;

  // Throws InvalidInput where documents of this kind need a chat template and the model has none.
  void require_template_for(const Document& document) const;

  const ModelText& text() const { return text_; }
  const ExampleOptions& options() const { return options_; }

 private:
  MarkedTokens tokens_of_chat(const Document& document, const Interrupted& interrupted, RowLeftovers& leftovers) const;
  MarkedTokens tokens_of_raw(const RawText& raw, const Interrupted& interrupted) const;
  MarkedTokens tokens_of_part(const std::string& part_text, TextPart part, const Interrupted& interrupted) const;

  const ModelText& text_;
  ExampleOptions options_;
  TemplateForm form_;
};

}  // namespace sluice
