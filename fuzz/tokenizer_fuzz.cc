// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json out of hostile bytes, and some of the same bytes as text for it. What it makes of a text must not
// depend on whether ranges are asked for, or on whether it is decoded whole or token by token.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "text/tokenizer.h"

namespace {

constexpr std::size_t kMaxTextBytes = 256;

void use(const sluice::Tokenizer& tokenizer, std::string_view text) {
  const sluice::Encoding encoding = tokenizer.encode_with_ranges(text, sluice::AddSpecial::kYes);
  CHECK(tokenizer.encode(text, sluice::AddSpecial::kYes) == encoding.ids, "ranges do not change ids");
  CHECK(encoding.ranges.size() == encoding.ids.size(), "every token has a range");
  for (const sluice::ByteRange range : encoding.ranges) {
    CHECK(range.begin <= range.end && range.end <= text.size(), "ranges lie in the text");
  }
  for (const sluice::TokenId id : encoding.ids) CHECK(id < tokenizer.vocab_size(), "ids are of the vocabulary");
  sluice::TokenStream stream(tokenizer, sluice::SkipSpecial::kNo);
  std::string streamed;
  for (const sluice::TokenId id : encoding.ids) streamed += stream.push(id);
  streamed += stream.finish();
  CHECK(tokenizer.decode(encoding.ids, sluice::SkipSpecial::kNo) == streamed, "a stream gives the same text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = sluice::parse_tokenizer(bytes, "fuzz");
    use(*tokenizer, bytes.substr(0, kMaxTextBytes));
    use(*tokenizer, bytes.substr(bytes.size() - std::min(bytes.size(), kMaxTextBytes)));
    use(*tokenizer, "lock gate \xC3\xA9\xC3\xBC  12 <s>\n");
  } catch (const sluice::FormatError&) {
  } catch (const sluice::InvalidInput&) {
  }
  return 0;
}
