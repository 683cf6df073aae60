// SPDX-License-Identifier: Apache-2.0
// The pieces of a tokenizer.model as a table.
#pragma once

#include <string>
#include <string_view>

#include "text/token_table.h"

namespace sluice {

// Throws FormatError where the bytes are no SentencePiece model; `where` names the file.
TokenTable make_sentence_piece_table(std::string_view model, const std::string& where);

}  // namespace sluice
