// SPDX-License-Identifier: Apache-2.0
// What a tokenizer makes of a text must not depend on whether ranges are asked for, or on whether it is decoded whole
// or token by token.
#pragma once

#include <string>
#include <string_view>

#include "base/check.h"
#include "text/tokenizer.h"

namespace sluice {

inline void use_tokenizer(const Tokenizer& tokenizer, std::string_view text) {
  const Encoding encoding = tokenizer.encode_with_ranges(text, AddSpecial::kYes);
  CHECK(tokenizer.encode(text, AddSpecial::kYes) == encoding.ids, "ranges do not change ids");
  CHECK(encoding.ranges.size() == encoding.ids.size(), "every token has a range");
  for (const ByteRange range : encoding.ranges) {
    CHECK(range.begin <= range.end && range.end <= text.size(), "ranges lie in the text");
  }
  for (const TokenId id : encoding.ids) CHECK(id < tokenizer.vocab_size(), "ids are of the vocabulary");
  TokenStream stream(tokenizer, SkipSpecial::kNo);
  std::string streamed;
  for (const TokenId id : encoding.ids) streamed += stream.push(id);
  streamed += stream.finish();
  CHECK(tokenizer.decode(encoding.ids, SkipSpecial::kNo) == streamed, "a stream gives the same text");
}

}  // namespace sluice
