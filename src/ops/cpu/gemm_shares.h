// SPDX-License-Identifier: Apache-2.0
// Which thread sums which block of a product: each begins with a run of blocks of its own, whose operands it then finds
// in its caches, and goes on with the last of whoever has most left, since cores are seldom equally fast.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::cpu {

class GemmShares {
 public:
  GemmShares(std::int64_t num_blocks, std::size_t num_threads);

  // Each block once; called as often as there are blocks, by any of the threads.
  std::int64_t take(std::size_t thread_idx);

 private:
  // In a line of its own: all but its thread seldom look at it.
  struct alignas(64) Share {
    // The first that is left, above, and the first that is another's.
    std::atomic<std::uint64_t> bounds{0};
  };

  static std::int64_t left(std::uint64_t bounds);

  std::vector<Share> shares_;
};

}  // namespace sluice::cpu
