// SPDX-License-Identifier: Apache-2.0
#include "base/hash_lanes.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

std::uint64_t secret_at(std::size_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, XXH3_kSecret + offset, sizeof(word));
  return word;
}

}  // namespace

HashLanes make_hash_lanes() {
  constexpr std::array<std::uint64_t, kHashLanes> kBegin{XXH_PRIME32_3, XXH_PRIME64_1, XXH_PRIME64_2, XXH_PRIME64_3,
                                                         XXH_PRIME64_4, XXH_PRIME32_2, XXH_PRIME64_5, XXH_PRIME32_1};
  constexpr std::size_t kLastStripe = XXH_SECRET_DEFAULT_SIZE - XXH_STRIPE_LEN;
  HashLanes made;
  for (std::size_t lane_idx = 0; lane_idx < kHashLanes; ++lane_idx) {
    HashLane& lane = made.lanes[lane_idx];
    const std::size_t column = lane_idx * sizeof(std::uint64_t);
    lane.begin = kBegin[lane_idx];
    for (std::size_t stripe = 0; stripe < kHashStripes; ++stripe) {
      lane.stripe[stripe] = secret_at(stripe * XXH_SECRET_CONSUME_RATE + column);
    }
    lane.last = secret_at(kLastStripe - XXH_SECRET_LASTACC_START + column);
    lane.scramble = secret_at(kLastStripe + column);
    lane.merge = secret_at(XXH_SECRET_MERGEACCS_START + column);
  }
  return made;
}

}  // namespace sluice
