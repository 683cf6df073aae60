// SPDX-License-Identifier: Apache-2.0
// A tokenizer.model out of hostile bytes, on its way to SentencePiece's library, which trusts it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "fuzz/tokenizer_use.h"
#include "text/tokenizer_parts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMaxTextBytes = 256;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const sluice::Tokenizer tokenizer(sluice::make_sentence_piece_parts(bytes, "fuzz"));
    sluice::use_tokenizer(tokenizer, "lock gate \xC3\xA9\xC5\xBF AB 12 <s>\n");
    sluice::use_tokenizer(tokenizer, bytes.substr(bytes.size() - std::min(bytes.size(), kMaxTextBytes)));
  } catch (const sluice::FormatError&) {
  } catch (const sluice::InvalidInput&) {
  }
  return 0;
}
