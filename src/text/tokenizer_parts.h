// SPDX-License-Identifier: Apache-2.0
// What a Tokenizer is made of. Text goes down this list: added tokens are cut out, what lies between is normalized,
// added tokens that ask for it are cut out of that, pre-tokenizers make words, the model makes tokens, and the frame
// goes around them. The decoder is the way back.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/token_model.h"

namespace sluice {

struct NamedTokens {
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> pad;
  std::optional<TokenId> unk;
};

struct TokenizerParts {
  std::vector<std::unique_ptr<const Normalizer>> normalizers;
  std::vector<std::unique_ptr<const PreTokenizer>> pre_tokenizers;
  std::unique_ptr<const TokenModel> model;
  std::unique_ptr<const AddedTokens> added;
  TokenDecoder decoder;
  SpecialFrame frame;
  NamedTokens named;
  bool needs_tracking = false;  // some pre-tokenizer does

  AlignedText normalize(AlignedText text) const;
  std::optional<TokenId> id_of(std::string_view token) const;
  // What the decoder is given for an id; nothing for an id without a token.
  std::optional<std::string> decoder_token(TokenId id) const;
  std::size_t id_limit() const;
};

// From a parsed tokenizer.json. Throws FormatError.
std::unique_ptr<TokenizerParts> parse_tokenizer_parts(const JsonView& document);
// From the bytes of a tokenizer.model. Throws FormatError. The prefix is that of a model which wants one.
std::unique_ptr<TokenizerParts> make_sentence_piece_parts(std::string_view model, const std::string& where,
                                                          SentencePrefix prefix = SentencePrefix::kFirst);

}  // namespace sluice
