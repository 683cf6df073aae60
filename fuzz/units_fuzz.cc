// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const std::uint64_t bytes = sluice::parse_bytes(text);
    CHECK(sluice::parse_bytes(std::to_string(bytes)) == bytes, "a size in bytes means itself");
    CHECK(!sluice::format_bytes(bytes).empty(), "every size can be printed");
  } catch (const sluice::InvalidInput&) {
  }
  try {
    CHECK(sluice::parse_seconds(text) > 0, "a time of zero or less was accepted");
  } catch (const sluice::InvalidInput&) {
  }
  return 0;
}
