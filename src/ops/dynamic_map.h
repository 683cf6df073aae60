// SPDX-License-Identifier: Apache-2.0
// The 8-bit code for numbers in [-1, 1] (or [0, 1]) that blockwise optimizers and double quantisation use: "dynamic"
// numbers, as published with 8-bit Optimizers via Block-wise Quantization (Dettmers et al., 2021). Seven decades, each
// cut into twice as many equal buckets as the one below it; a code stands for the middle of its bucket. Besides, 0 and
// 1 have a code each. Codes are in the order of their values.
//
//   signed     0 .. 126 negative, 127 is 0, 128 .. 254 positive (decades of 1, 2, .. 64 buckets), 255 is 1
//   unsigned   0 is 0, 1 .. 254 (decades of 2, 4, .. 128 buckets), 255 is 1
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice {

enum class CodeRange : std::uint8_t { kSigned, kUnsigned };

inline constexpr std::size_t kNumDecades = 7;
inline constexpr std::uint8_t kSignedZeroCode = 127;

// A place counts up through the buckets of all decades so that decade k begins at a power of two, n = 2^k (signed) or
// 2^(k + 1) (unsigned): the place of a signed code is its distance from 127, that of an unsigned one is the code plus
// one. The middle of bucket i = place - n of n, in the decade that ends at 10^(k - 6), is
//   10^(k - 6) * (0.1 + 0.9 * (2 i + 1) / (2 n)) = (18 place - 16 n + 9) * 10^(k - 7) / (2 n)
// and that last factor is the decade's unit. One product makes a value, with the same rounding on every CPU. The last
// unit makes 1 of the place of 1.
struct DynamicUnits {
  std::array<float, kNumDecades + 1> of_decade{};
};

constexpr std::uint32_t first_buckets(CodeRange range) { return range == CodeRange::kSigned ? 1 : 2; }

constexpr DynamicUnits dynamic_units(CodeRange range) {
  DynamicUnits units;
  double unit = 1e-7;
  std::uint32_t buckets = first_buckets(range);
  for (std::size_t decade = 0; decade < kNumDecades; ++decade) {
    units.of_decade[decade] = static_cast<float>(unit / (2.0 * buckets));
    unit *= 10;
    buckets *= 2;
  }
  units.of_decade[kNumDecades] = static_cast<float>(1.0 / (2.0 * buckets + 9));
  return units;
}

// The value of every code.
constexpr std::array<float, 256> dynamic_map(CodeRange range) {
  const DynamicUnits units = dynamic_units(range);
  std::array<float, 256> map{};
  for (int code = 0; code < 256; ++code) {
    const int place = range == CodeRange::kUnsigned ? code + 1 : code < kSignedZeroCode ? 127 - code : code - 127;
    if (range == CodeRange::kUnsigned ? code == 0 : place == 0) continue;
    int buckets = static_cast<int>(first_buckets(range));
    std::size_t decade = 0;
    for (; 2 * buckets <= place; buckets *= 2) ++decade;
    const float value = static_cast<float>(18 * place - 16 * buckets + 9) * units.of_decade[decade];
    map[static_cast<std::size_t>(code)] = range == CodeRange::kSigned && code < kSignedZeroCode ? -value : value;
  }
  return map;
}

}  // namespace sluice
