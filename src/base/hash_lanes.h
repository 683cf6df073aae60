// SPDX-License-Identifier: Apache-2.0
// XXH3 of whole kilobytes, taken apart into the eight sums that it runs side by side, for hardware that computes them
// with eight threads. Each sum meets the words of its own column alone, but for its neighbour's word:
//
//   a block, 1 KiB:  16 stripes of 8 words; sum i adds word i^1 and the product of the halves of (word i ^ key),
//                    and is scrambled behind the last stripe
//   the last block:  its last stripe has a key of its own, and nothing is scrambled behind it
//   the end:         neighbours are multiplied, the four products added and mixed
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define SLUICE_ON_BOTH __host__ __device__
#else
#define SLUICE_ON_BOTH
#endif

namespace sluice {

inline constexpr std::size_t kHashLanes = 8;
inline constexpr std::size_t kHashStripes = 16;  // of a block
inline constexpr std::uint64_t kHashBlockBytes = kHashStripes * kHashLanes * sizeof(std::uint64_t);

// What XXH3's secret and its first sums are to one lane.
struct HashLane {
  std::uint64_t begin = 0;
  std::uint64_t stripe[kHashStripes] = {};
  std::uint64_t last = 0;
  std::uint64_t scramble = 0;
  std::uint64_t merge = 0;
};
struct HashLanes {
  HashLane lanes[kHashLanes];
};
HashLanes make_hash_lanes();

SLUICE_ON_BOTH inline std::uint64_t add_word(std::uint64_t sum, std::uint64_t key, std::uint64_t own,
                                             std::uint64_t neighbour) {
  const std::uint64_t keyed = own ^ key;
  return sum + neighbour + (keyed & 0xFFFFFFFFU) * (keyed >> 32U);
}

SLUICE_ON_BOTH inline std::uint64_t scramble_sum(std::uint64_t sum, std::uint64_t key) {
  return ((sum ^ (sum >> 47U)) ^ key) * 0x9E3779B1U;
}

// Of a pair of neighbours, each ^ its merge key.
SLUICE_ON_BOTH inline std::uint64_t fold_product(std::uint64_t left, std::uint64_t right) {
#if defined(__CUDA_ARCH__)
  return (left * right) ^ __umul64hi(left, right);
#else
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(left) * right;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
#endif
}

// `folded` is the sum of the four products.
SLUICE_ON_BOTH inline std::uint64_t finish_hash(std::uint64_t folded, std::uint64_t size_bytes) {
  std::uint64_t hash = folded + size_bytes * 0x9E3779B185EBCA87U;
  hash ^= hash >> 37U;
  hash *= 0x165667919E3779F9U;
  return hash ^ (hash >> 32U);
}

}  // namespace sluice
