// SPDX-License-Identifier: Apache-2.0
#include "base/hash_lanes.h"

#include <cstring>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/random.h"

namespace sluice {
namespace {

// As eight threads would.
std::uint64_t hash_by_lanes(std::span<const std::byte> bytes) {
  const HashLanes keys = make_hash_lanes();
  std::vector<std::uint64_t> words(bytes.size() / sizeof(std::uint64_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  std::uint64_t sums[kHashLanes];
  const std::size_t num_blocks = bytes.size() / kHashBlockBytes;
  for (std::size_t lane_idx = 0; lane_idx < kHashLanes; ++lane_idx) {
    const HashLane& lane = keys.lanes[lane_idx];
    std::uint64_t sum = lane.begin;
    for (std::size_t block = 0; block < num_blocks; ++block) {
      const bool last_block = block + 1 == num_blocks;
      for (std::size_t stripe = 0; stripe < kHashStripes; ++stripe) {
        const std::uint64_t* const row = &words[(block * kHashStripes + stripe) * kHashLanes];
        const bool last = last_block && stripe + 1 == kHashStripes;
        sum = add_word(sum, last ? lane.last : lane.stripe[stripe], row[lane_idx], row[lane_idx ^ 1U]);
      }
      if (!last_block) sum = scramble_sum(sum, lane.scramble);
    }
    sums[lane_idx] = sum ^ lane.merge;
  }
  std::uint64_t folded = 0;
  for (std::size_t lane_idx = 0; lane_idx < kHashLanes; lane_idx += 2) {
    folded += fold_product(sums[lane_idx], sums[lane_idx + 1]);
  }
  return finish_hash(folded, bytes.size());
}

TEST(HashLanes, TogetherAreXxh3OfWholeKilobytes) {
  Random random(3);
  for (const std::size_t kilobytes : {1, 2, 3, 4, 7, 64, 1024}) {
    std::vector<std::byte> bytes(kilobytes * kHashBlockBytes);
    random.fill(bytes);
    EXPECT_EQ(hash_by_lanes(bytes), xxh3(bytes)) << kilobytes;
  }
}

}  // namespace
}  // namespace sluice
