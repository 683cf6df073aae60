// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizers of tokenizer.json: each cuts the pieces of a text into smaller ones, and some rewrite them.
// Immutable, shared by threads.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_view.h"
#include "text/piece_splitter.h"
#include "text/split_text.h"

namespace sluice {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(SplitText& split) const = 0;
  // Whether it asks where in the input a piece began.
  virtual bool needs_tracking() const { return false; }
};

// In the order they are applied, Sequences laid flat. Throws FormatError for a kind that is not known.
std::vector<std::unique_ptr<const PreTokenizer>> parse_pre_tokenizers(const JsonView& view);

// Those that rewrite text, ByteLevel and Metaspace: a rewriting step and the cut that belongs to it. None where the
// type is another one.
std::vector<std::unique_ptr<const PreTokenizer>> parse_rewriting_pre_tokenizer(std::string_view type,
                                                                               const JsonView& view);

// What a SentencePiece model gets: blanks as the model wants them, U+2581 or as they are, and one more in front of the
// whole input, or of every stretch of it between added tokens.
enum class SentencePrefix { kNone, kFirst, kEach };
std::unique_ptr<const PreTokenizer> make_sentence_prefix(std::string blank, SentencePrefix prefix);

std::unique_ptr<const PreTokenizer> make_gpt2_split();
std::unique_ptr<const PreTokenizer> make_literal_split(std::string literal, SplitBehavior behavior);

}  // namespace sluice
