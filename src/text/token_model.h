// SPDX-License-Identifier: Apache-2.0
// What turns one piece of text into tokens: byte pairs, unigrams, word pieces, whole words, SentencePiece. Const use is
// safe from many threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/json_view.h"
#include "text/stop_poll.h"
#include "text/vocabulary.h"

namespace sluice {

struct ModelToken {
  TokenId id = 0;
  std::uint32_t begin = 0;  // bytes of the piece
  std::uint32_t end = 0;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual const Vocabulary& vocabulary() const = 0;
  // Appends the tokens of `piece`, which is UTF-8 and not empty. Polls for cancellation while encoding a long piece.
  virtual void encode(std::string_view piece, std::vector<ModelToken>& tokens, StopPoll& poll) const = 0;
};

// The `model` of tokenizer.json. Throws FormatError where it does not hold together.
std::unique_ptr<const TokenModel> parse_token_model(const JsonView& view);

std::unique_ptr<const TokenModel> parse_bpe_model(const JsonView& view);
std::unique_ptr<const TokenModel> parse_unigram_model(const JsonView& view);
std::unique_ptr<const TokenModel> parse_word_piece_model(const JsonView& view);
std::unique_ptr<const TokenModel> parse_word_level_model(const JsonView& view);

}  // namespace sluice
