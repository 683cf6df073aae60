// SPDX-License-Identifier: Apache-2.0
// The input on its way from normalized text to words: one text, and the pieces it is cut into. A piece may be a token
// already (an added one), which pre-tokenizers leave alone. Values.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "text/aligned_text.h"
#include "text/stop_poll.h"

namespace sluice {

struct TextPiece {
  static constexpr std::uint32_t kNoToken = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t begin = 0;  // bytes of SplitText::text
  std::uint32_t end = 0;
  std::uint32_t token = kNoToken;
  bool is_token() const { return token != kNoToken; }
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
