// SPDX-License-Identifier: Apache-2.0
// Random bits that depend on a seed, a step and an element's index alone; the same that the CPU's kernels have
// (ops/cpu/rounding_key.h, ops/cpu/stochastic-inl.h), bit for bit.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace sluice::cuda {

// Of a seed and a step; the rest of the key follows from the upper half of an element's index.
inline std::uint64_t random_stream(std::uint64_t seed, std::int64_t step) {
  return Random(Random(seed).next() ^ static_cast<std::uint64_t>(step)).next();
}

struct RandomKey {
  std::uint32_t before;
  std::uint32_t between;
};

// Random(stream ^ upper_index).next() in two halves.
__device__ inline RandomKey random_key(std::uint64_t stream, std::uint32_t upper_index) {
  std::uint64_t z = (stream ^ upper_index) + 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  return {static_cast<std::uint32_t>(z), static_cast<std::uint32_t>(z >> 32)};
}

__device__ inline std::uint32_t random_bits(RandomKey key, std::uint32_t index) {
  std::uint32_t x = index ^ key.before;
  x ^= x >> 16;
  x *= 0x7FEB352DU;
  x = (x ^ (x >> 15)) + key.between;
  x *= 0x846CA68BU;
  return x ^ (x >> 16);
}

}  // namespace sluice::cuda
