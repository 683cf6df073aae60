// SPDX-License-Identifier: Apache-2.0
// The pieces of a tokenizer.model as a table.
#pragma once

#include <string>
#include <string_view>

#include "text/token_table.h"

namespace sluice {

inline constexpr int kMaxSentencePieces = 1 << 24;  // of a model that is read

// Throws FormatError where the bytes are no SentencePiece model; `where` names the file.
TokenTable make_sentence_piece_table(std::string_view model, const std::string& where);

}  // namespace sluice
