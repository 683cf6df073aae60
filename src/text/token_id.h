// SPDX-License-Identifier: Apache-2.0
// What tokens are to everybody else: a number, and the bytes of the input that it stands for.
#pragma once

#include <cstdint>

namespace sluice {

using TokenId = std::uint32_t;

struct ByteRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

}  // namespace sluice
