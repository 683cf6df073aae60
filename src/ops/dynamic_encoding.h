// SPDX-License-Identifier: Apache-2.0
// From numbers to the nearest code of ops/dynamic_map.h, without a search. A number's decade is guessed from its
// logarithm and put right by where decades start; of x in a decade, x * scale + place is the code's place to round:
// that of the decade's first bucket, n, and what x is beyond that bucket's middle, (x / 10^(k - 6) - 0.1) / 0.9 * n -
// 0.5. Tables count modulo 16: entry 15 stands for the decade below all, which makes the place of 0 of everything; the
// one above all makes that of 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ops/dynamic_map.h"

namespace sluice {

inline constexpr float kLog10Of2 = 0.30103F;
inline constexpr float kBelowAllDecades = 2e-7F;  // in no decade of signed codes, and above 10^-7

struct DynamicEncoding {
  std::array<float, 16> starts{};  // half way between the last value below a decade and its first
  std::array<float, 16> scales{};
  std::array<float, 16> places{};
  std::array<float, 16> last_places{};
};

constexpr DynamicEncoding dynamic_encoding(CodeRange range) {
  DynamicEncoding encoding;
  const std::array<float, 256> map = dynamic_map(range);
  std::size_t first_code = range == CodeRange::kSigned ? 128 : 1;
  double per_decade = 1e6;
  std::uint32_t buckets = first_buckets(range);
  for (std::size_t decade = 0; decade <= kNumDecades; ++decade) {
    const double below = map[first_code - 1];
    encoding.starts[decade] = static_cast<float>((below + static_cast<double>(map[first_code])) / 2);
    if (decade < kNumDecades) {
      encoding.scales[decade] = static_cast<float>(per_decade * buckets / 0.9);
      encoding.places[decade] = static_cast<float>(buckets - buckets / 9.0 - 0.5);
      encoding.last_places[decade] = static_cast<float>(2 * buckets - 1);
    } else {
      encoding.places[decade] = static_cast<float>(buckets);
      encoding.last_places[decade] = static_cast<float>(buckets);
    }
    per_decade /= 10;
    first_code += buckets;
    buckets *= 2;
  }
  return encoding;
}

}  // namespace sluice
