// SPDX-License-Identifier: Apache-2.0
// Cuts pieces of text at what a search finds in them, and does with the finds what a `behavior` of tokenizer.json says.
// Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "text/json_view.h"
#include "text/split_text.h"

namespace sluice {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

SplitBehavior parse_split_behavior(const JsonView& view);

// Part of a piece: a find, or what lies between finds. Together they cover the piece.
struct FoundPart {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_match = false;
};

// Merges and drops parts in place; what is left are pieces, some possibly empty.
void arrange_parts(std::vector<FoundPart>& parts, SplitBehavior behavior);

// Cuts every piece that is not a token. `find(text, parts)` appends the parts of a text.
template <typename Find>
void split_pieces(SplitText& split, SplitBehavior behavior, Find find) {
  std::vector<TextPiece> pieces;
  pieces.reserve(split.pieces.size());
  std::vector<FoundPart> parts;
  for (const TextPiece& piece : split.pieces) {
    if (piece.is_token()) {
      pieces.push_back(piece);
      continue;
    }
    parts.clear();
    find(split.view(piece), parts);
    arrange_parts(parts, behavior);
    for (const FoundPart& part : parts) {
      split.poll();
      if (part.begin == part.end) continue;
      pieces.push_back({.begin = piece.begin + static_cast<std::uint32_t>(part.begin),
                        .end = piece.begin + static_cast<std::uint32_t>(part.end)});
    }
  }
  split.pieces = std::move(pieces);
}

}  // namespace sluice
