// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_shares.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::cpu {
namespace {

using testing::ElementsAre;

TEST(GemmShares, AThreadBeginsWithItsOwnAndThenTakesTheLastOfTheLargest) {
  GemmShares shares(7, 3);  // 0 1, 2 3, 4 5 6
  std::vector<std::int64_t> taken;
  for (const std::size_t thread_idx : {1U, 1U, 1U, 0U, 1U, 2U, 1U}) taken.push_back(shares.take(thread_idx));
  EXPECT_THAT(taken, ElementsAre(2, 3, 6, 0, 5, 4, 1));
}

TEST(GemmShares, OneThreadTakesWhatOthersDoNotComeFor) {
  GemmShares shares(5, 8);
  std::vector<std::int64_t> taken;
  for (int i = 0; i < 5; ++i) taken.push_back(shares.take(7));
  EXPECT_THAT(taken, testing::UnorderedElementsAre(0, 1, 2, 3, 4));
}

TEST(GemmShares, EveryBlockIsTakenOnceByThreadsThatRace) {
  constexpr std::int64_t kNumBlocks = 4001;
  constexpr std::size_t kNumThreads = 4;
  GemmShares shares(kNumBlocks, kNumThreads);
  std::atomic<std::int64_t> num_left{kNumBlocks};
  std::vector<std::vector<std::int64_t>> taken(kNumThreads);
  std::vector<std::thread> threads;
  for (std::size_t idx = 0; idx < kNumThreads; ++idx) {
    threads.emplace_back([&, idx] {
      while (num_left.fetch_sub(1) > 0) taken[idx].push_back(shares.take(idx));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int> times(kNumBlocks, 0);
  for (const auto& list : taken) {
    for (const std::int64_t block : list) ++times.at(static_cast<std::size_t>(block));
  }
  EXPECT_THAT(times, testing::Each(1));
}

}  // namespace
}  // namespace sluice::cpu
