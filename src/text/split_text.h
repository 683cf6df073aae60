// SPDX-License-Identifier: Apache-2.0
// The input on its way from normalized text to words: one text, and the pieces it is cut into. A piece may be a token
// already (an added one), which pre-tokenizers leave alone. Values.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/aligned_text.h"

namespace sluice {

struct TextPiece {
  static constexpr std::uint32_t kNoToken = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t begin = 0;  // bytes of SplitText::text
  std::uint32_t end = 0;
  std::uint32_t token = kNoToken;
  bool is_token() const { return token != kNoToken; }
};

// Asks every few thousand words whether the user wants to stop; then throws Cancelled. Borrows the question, which may
// be empty.
class StopPoll {
 public:
  StopPoll() = default;
  explicit StopPoll(const std::function<bool()>& interrupted) : interrupted_(interrupted ? &interrupted : nullptr) {}

  void operator()() {
    if (interrupted_ == nullptr || ++num_words_ % kWordsPerPoll != 0) return;
    if ((*interrupted_)()) throw Cancelled("stopped while a text was made into tokens");
  }

 private:
  static constexpr std::uint32_t kWordsPerPoll = 4096;

  const std::function<bool()>* interrupted_ = nullptr;
  std::uint32_t num_words_ = 0;
};

struct SplitText {
  AlignedText text;
  std::vector<TextPiece> pieces;
  StopPoll poll = {};

  std::string_view view(const TextPiece& piece) const {
    return std::string_view(text.text()).substr(piece.begin, piece.end - piece.begin);
  }
};

}  // namespace sluice
