// SPDX-License-Identifier: Apache-2.0
// The decoders of tokenizer.json, which turn tokens back into text. A TokenDecoder is immutable and shared; each text
// is made by a DecoderRun of its own, token by token: what comes out early is what decoding the whole would give.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_view.h"
#include "text/pre_tokenizer.h"

namespace sluice {

// One step at work on one text. Takes strings, gives strings on, and holds back what the next ones may change.
class DecoderRun {
 public:
  using Strings = std::vector<std::string>;

  virtual ~DecoderRun() = default;
  virtual Strings push(std::string token) = 0;
  virtual Strings finish() { return {}; }
};

class DecoderStep {
 public:
  // Whether what comes in are tokens, or parts of one long string because a step before has joined them.
  enum class Input { kTokens, kJoined };

  virtual ~DecoderStep() = default;
  virtual std::unique_ptr<DecoderRun> start(Input input) const = 0;
  virtual bool joins() const { return false; }
};

class TokenDecoder {
 public:
  // Joins tokens with a blank between, as is done where a file names no decoder.
  TokenDecoder();
  explicit TokenDecoder(const JsonView& view);
  // What SentencePiece models need: U+2581 to blanks, bytes, and without the first blank.
  static TokenDecoder for_sentence_pieces(SentencePrefix prefix);

  std::vector<std::unique_ptr<DecoderRun>> start() const;

 private:
  std::vector<std::unique_ptr<const DecoderStep>> steps_;
};

// Tokens in, text out.
class TextAssembler {
 public:
  explicit TextAssembler(const TokenDecoder& decoder) : runs_(decoder.start()) {}

  // The text that is certain now and was not before.
  std::string push(std::string token);
  std::string finish();

 private:
  void feed(std::size_t run_idx, std::vector<std::string> strings, std::string& out);

  std::vector<std::unique_ptr<DecoderRun>> runs_;
  std::size_t num_bytes_in_ = 0;
};

}  // namespace sluice
