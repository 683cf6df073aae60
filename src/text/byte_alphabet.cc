// SPDX-License-Identifier: Apache-2.0
#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace sluice {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::int16_t, 512> byte{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte) byte = -1;
  char32_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t character = stands_for_itself(byte) ? byte : next++;
    alphabet.character[byte] = character;
    alphabet.byte[character] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

struct Spelling {
  std::array<char, 2> bytes{};
  unsigned char size = 0;
};

constexpr std::array<Spelling, 256> make_spellings() {
  std::array<Spelling, 256> spellings;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t c = kAlphabet.character[byte];
    if (c < 0x80) {
      spellings[byte] = {{static_cast<char>(c), 0}, 1};
    } else {
      spellings[byte] = {{static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3F))}, 2};
    }
  }
  return spellings;
}

constexpr std::array<Spelling, 256> kSpellings = make_spellings();

}  // namespace

std::string_view byte_character(unsigned char byte) { return {kSpellings[byte].bytes.data(), kSpellings[byte].size}; }

std::optional<unsigned char> byte_of_character(char32_t character) {
  if (character >= kAlphabet.byte.size() || kAlphabet.byte[character] < 0) return std::nullopt;
  return static_cast<unsigned char>(kAlphabet.byte[character]);
}

}  // namespace sluice
