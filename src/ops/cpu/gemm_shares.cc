// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_shares.h"

#include "base/check.h"

namespace sluice::cpu {
namespace {

constexpr std::uint64_t kOneFirst = std::uint64_t{1} << 32;

std::uint64_t bounds_of(std::int64_t first, std::int64_t end) {
  return static_cast<std::uint64_t>(first) * kOneFirst + static_cast<std::uint64_t>(end);
}

}  // namespace

GemmShares::GemmShares(std::int64_t num_blocks, std::size_t num_threads) : shares_(num_threads) {
  CHECK(num_blocks < (std::int64_t{1} << 32), "blocks are counted in 32 bits");
  const auto count = static_cast<std::int64_t>(num_threads);
  for (std::int64_t idx = 0; idx < count; ++idx) {
    shares_[static_cast<std::size_t>(idx)].bounds.store(
        bounds_of(idx * num_blocks / count, (idx + 1) * num_blocks / count), std::memory_order_relaxed);
  }
}

std::int64_t GemmShares::left(std::uint64_t bounds) {
  return static_cast<std::int64_t>(bounds % kOneFirst) - static_cast<std::int64_t>(bounds / kOneFirst);
}

// What a block is made of was written before the loop began, so that order is nothing to these counts.
std::int64_t GemmShares::take(std::size_t thread_idx) {
  std::atomic<std::uint64_t>& own = shares_[thread_idx].bounds;
  for (std::uint64_t bounds = own.load(std::memory_order_relaxed); left(bounds) > 0;) {
    if (own.compare_exchange_weak(bounds, bounds + kOneFirst, std::memory_order_relaxed)) {
      return static_cast<std::int64_t>(bounds / kOneFirst);
    }
  }
  for (;;) {
    Share* largest = nullptr;
    std::uint64_t seen = 0;
    for (Share& share : shares_) {
      const std::uint64_t bounds = share.bounds.load(std::memory_order_relaxed);
      if (left(bounds) > left(seen)) {
        largest = &share;
        seen = bounds;
      }
    }
    CHECK(largest != nullptr, "blocks are taken as often as there are any");
    if (largest->bounds.compare_exchange_strong(seen, seen - 1, std::memory_order_relaxed)) {
      return static_cast<std::int64_t>(seen % kOneFirst) - 1;
    }
  }
}

}  // namespace sluice::cpu
