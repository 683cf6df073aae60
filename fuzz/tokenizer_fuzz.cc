// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json out of hostile bytes, and some of the same bytes as text for it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "fuzz/tokenizer_use.h"
#include "text/tokenizer.h"

namespace {

constexpr std::size_t kMaxTextBytes = 256;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = sluice::parse_tokenizer(bytes, "fuzz");
    sluice::use_tokenizer(*tokenizer, bytes.substr(0, kMaxTextBytes));
    sluice::use_tokenizer(*tokenizer, bytes.substr(bytes.size() - std::min(bytes.size(), kMaxTextBytes)));
    sluice::use_tokenizer(*tokenizer, "lock gate \xC3\xA9\xC3\xBC  12 <s>\n");
  } catch (const sluice::FormatError&) {
  } catch (const sluice::InvalidInput&) {
  }
  return 0;
}
