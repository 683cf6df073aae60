// SPDX-License-Identifier: Apache-2.0
// Decoder steps that know about words: Metaspace, Strip, WordPiece, BPEDecoder, and the plain blank between tokens.
// Immutable.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "text/json_view.h"
#include "text/token_decoder.h"

namespace sluice {

// Nothing where the type is another one.
std::unique_ptr<const DecoderStep> parse_word_decoder(std::string_view type, const JsonView& view);

std::unique_ptr<const DecoderStep> make_strip(char32_t content, std::size_t num_left, std::size_t num_right);
std::unique_ptr<const DecoderStep> make_blank_joiner();

}  // namespace sluice
