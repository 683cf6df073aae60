// SPDX-License-Identifier: Apache-2.0
// A tokenizer.model for SentencePiece's library, which trusts its bytes: it follows a map of replacements
// (`precompiled_charsmap`) wherever that leads, in memory too, and goes as deep into itself as a piece is long. So they
// are looked at first.
#pragma once

#include <sentencepiece_processor.h>

#include <memory>
#include <string>
#include <string_view>

namespace sluice {

// Throws FormatError where the bytes are no model, or one that cannot be right; `where` names the file.
std::unique_ptr<sentencepiece::SentencePieceProcessor> load_sentence_pieces(std::string_view model,
                                                                            const std::string& where);

// What a model does with blanks: its normalizer_spec.
struct SentenceBlanks {
  bool has_prefix = true;  // add_dummy_prefix: one is put in front of a text
  bool are_single = true;  // remove_extra_whitespaces: none at either end, and no two in a row
};

// Throws as above, and InvalidInput where blanks stand behind words.
SentenceBlanks read_sentence_blanks(std::string_view model, const std::string& where);

}  // namespace sluice
