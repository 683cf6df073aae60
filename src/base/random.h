// SPDX-License-Identifier: Apache-2.0
// A small, fast, seedable generator (SplitMix64). The same seed gives the same numbers on every machine and with every
// compiler, which std:: distributions do not promise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound); bound > 0. The bias of the modulo is below 2^-32 for every bound used here.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

  // True once in `n` on average.
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  void fill(std::span<std::byte> bytes);

 private:
  std::uint64_t state_;
};

// A number that no earlier process had, from the kernel; for identities, never for results.
std::uint64_t random_identity();

}  // namespace sluice
