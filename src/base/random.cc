// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace sluice {

void Random::fill(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t word = next();
    const std::size_t count = std::min(bytes.size(), sizeof(word));
    std::memcpy(bytes.data(), &word, count);
    bytes = bytes.subspan(count);
  }
}

std::uint64_t random_identity() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace sluice
