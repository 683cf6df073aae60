// SPDX-License-Identifier: Apache-2.0
// How many columns of a terminal a code point takes, as Unicode's East Asian width has it. A pure function.
#pragma once

#include <cstddef>

namespace sluice {

// 2 for CJK and most emoji, 0 for what combines with the character before it and for control characters, else 1.
std::size_t char_width(char32_t code_point);

}  // namespace sluice
