// SPDX-License-Identifier: Apache-2.0
// What the random bits of a run of elements are made with: another key for each slice (by its seed), step and 2^32
// elements.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace sluice::cpu {

struct RoundingKey {
  std::uint32_t before = 0;
  std::uint32_t between = 0;
};

inline RoundingKey rounding_key(std::uint64_t seed, std::int64_t step, std::uint32_t upper_index) {
  const std::uint64_t of_slice = Random(seed).next();
  const std::uint64_t of_step = Random(of_slice ^ static_cast<std::uint64_t>(step)).next();
  const std::uint64_t key = Random(of_step ^ upper_index).next();
  return {.before = static_cast<std::uint32_t>(key), .between = static_cast<std::uint32_t>(key >> 32)};
}

}  // namespace sluice::cpu
