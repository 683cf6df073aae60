// SPDX-License-Identifier: Apache-2.0
#include "base/worker_team.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(WorkerTeam, EveryItemRunsOnceInEveryLoop) {
  for (const std::size_t num_threads : {1U, 2U, 5U}) {
    WorkerTeam team(num_threads);
    for (int loop = 0; loop < 300; ++loop) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(loop % 37));
      team.for_each(static_cast<std::int64_t>(runs.size()), [&](std::int64_t idx, std::size_t worker_idx) {
        ASSERT_LT(worker_idx, num_threads);
        runs[static_cast<std::size_t>(idx)].fetch_add(1);
      });
      for (const std::atomic<int>& count : runs) ASSERT_EQ(count.load(), 1);
    }
  }
}

TEST(WorkerTeam, CallersFromSeveralThreadsTakeTurns) {
  WorkerTeam team(3);
  std::atomic<int> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int loop = 0; loop < 100; ++loop) {
        team.for_each(10, [&](std::int64_t, std::size_t) { total.fetch_add(1); });
      }
    });
  }
  for (std::thread& thread : callers) thread.join();
  EXPECT_EQ(total.load(), 4000);
}

}  // namespace
}  // namespace sluice
