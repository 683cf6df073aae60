// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <future>
#include <latch>
#include <set>

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(ThreadPool, OneThreadRunsTasksInTheOrderGiven) {
  std::vector<int> order;
  {
    ThreadPool pool(1, "order");
    for (int i = 0; i < 1000; ++i) pool.run([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(ThreadPool, DestructionRunsWhatIsQueued) {
  std::atomic<int> num_run{0};
  std::promise<void> gate;
  {
    ThreadPool pool(2, "queued");
    const std::shared_future<void> open = gate.get_future().share();
    for (int i = 0; i < 2; ++i) pool.run([open] { open.wait(); });
    for (int i = 0; i < 500; ++i) pool.run([&num_run] { ++num_run; });
    EXPECT_EQ(num_run.load(), 0);  // both threads are held, so all 500 are still queued
    gate.set_value();
  }
  EXPECT_EQ(num_run.load(), 500);
}

// With fewer threads than tasks that wait for each other, this would never end.
TEST(ThreadPool, AllThreadsWorkAtOnce) {
  constexpr int kThreads = 5;
  std::latch together(kThreads);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  {
    ThreadPool pool(kThreads, "together");
    for (int i = 0; i < kThreads; ++i) {
      pool.run([&] {
        together.arrive_and_wait();
        const std::scoped_lock lock(mutex);
        ids.insert(std::this_thread::get_id());
      });
    }
  }
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(kThreads));
}

TEST(ThreadPool, TakesTasksFromManyThreadsAndFromTasks) {
  std::atomic<int> num_run{0};
  {
    ThreadPool pool(3, "many");
    std::vector<std::thread> givers;
    for (int i = 0; i < 8; ++i) {
      givers.emplace_back([&] {
        for (int j = 0; j < 200; ++j) {
          pool.run([&] {
            ++num_run;
            pool.run([&] { ++num_run; });
          });
        }
      });
    }
    for (std::thread& giver : givers) giver.join();
  }
  EXPECT_EQ(num_run.load(), 8 * 200 * 2);
}

TEST(ThreadPool, NamesItsThreadsWithWhatTheKernelKeeps) {
  std::array<char, 32> name{};
  {
    ThreadPool pool(1, "a-name-that-is-too-long");
    pool.run([&] { pthread_getname_np(pthread_self(), name.data(), name.size()); });
  }
  EXPECT_STREQ(name.data(), "a-name-that-is-");
}

}  // namespace
}  // namespace sluice
