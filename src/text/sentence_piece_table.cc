// SPDX-License-Identifier: Apache-2.0
#include "text/sentence_piece_table.h"

#include "text/sentence_piece_load.h"

namespace sluice {
namespace {

TokenKind kind_of(const sentencepiece::SentencePieceProcessor& processor, int id) {
  if (processor.IsUnknown(id)) return TokenKind::kUnknown;
  if (processor.IsControl(id)) return TokenKind::kControl;
  if (processor.IsUnused(id)) return TokenKind::kUnused;
  if (processor.IsByte(id)) return TokenKind::kByte;
  return TokenKind::kNormal;
}

}  // namespace

TokenTable make_sentence_piece_table(std::string_view model, const std::string& where) {
  const auto loaded = load_sentence_pieces(model, where);
  const sentencepiece::SentencePieceProcessor& processor = *loaded;
  TokenTable table;
  table.scheme = TokenScheme::kSentencePieces;
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    table.tokens.push_back({processor.IdToPiece(id), kind_of(processor, id), processor.GetScore(id)});
  }
  return table;
}

}  // namespace sluice
