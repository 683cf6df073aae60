// SPDX-License-Identifier: Apache-2.0
// The 256 printable characters that stand for bytes in byte-level vocabularies (GPT-2's: 'Ġ' is a blank). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// One or two bytes of UTF-8.
std::string_view byte_character(unsigned char byte);
std::optional<unsigned char> byte_of_character(char32_t character);

}  // namespace sluice
