// SPDX-License-Identifier: Apache-2.0
// Documents to examples: conversations through the model's chat template, raw text as it is, then its tokenizer, then
// the labels. Borrows the model's text. Const use is safe from many threads.
//
// Learned is what the assistant says, with the token that ends its turn, but for messages that say otherwise; of raw
// text the completion and the end of the text. A token that covers any byte of it counts.
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

// True once the user has asked to stop; empty where nobody can.
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
  RowLeftovers leftovers;  // what the document holds that the examples do not
};

// What a chat template takes, as a try has shown.
struct TemplateForm {
  bool takes_parts = false;    // contents that are lists of parts
  bool wants_objects = false;  // arguments of calls as objects, not as strings of JSON
  std::optional<RowJson> wordless =
      {};  // the content of a message that only calls tools: "" or null, if either will do
};

class ExampleMaker {
 public:
  // Throws InvalidInput where the sequence length makes no sense.
  ExampleMaker(const ModelText& text, ExampleOptions options);

  // A longer document is cut off at the sequence length, a plain text file goes on in the next example. Throws BadRow,
  // FormatError or InvalidInput where the template or the tokenizer refuses the document, or the template leaves out
  // what the assistant says; Cancelled.
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
