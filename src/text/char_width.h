// SPDX-License-Identifier: Apache-2.0
// Display width of a code point in terminal columns, by Unicode's East Asian Width. A pure function.
#pragma once

#include <cstddef>

namespace sluice {

// 2 for CJK and most emoji, 0 for combining and control characters, else 1.
std::size_t char_width(char32_t code_point);

}  // namespace sluice
