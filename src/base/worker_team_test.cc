// SPDX-License-Identifier: Apache-2.0
#include "base/worker_team.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <fstream>
#include <string>
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

// Where a thread is held up: it says so at one end, and goes on when the other has something to read.
std::array<int, 2> held_up{};
std::array<int, 2> goes_on{};

void hold_up(int) {
  char byte = 0;
  if (::write(held_up[1], &byte, 1) != 1 || ::read(goes_on[0], &byte, 1) != 1) ::_exit(1);
}

bool sleeps(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(status, text);
  return text.find(") S ") != std::string::npos;
}

TEST(WorkerTeam, ALoopDoesNotWaitForAThreadThatHasNotBegun) {
  ASSERT_EQ(::pipe(held_up.data()), 0);
  ASSERT_EQ(::pipe(goes_on.data()), 0);
  WorkerTeam team(2);
  std::atomic<pid_t> worker{0};
  std::barrier both(2);
  team.for_each(2, [&](std::int64_t, std::size_t worker_idx) {
    if (worker_idx == 1) worker = ::gettid();
    both.arrive_and_wait();
  });
  struct sigaction action {};
  action.sa_handler = hold_up;
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  while (!sleeps(worker)) std::this_thread::yield();  // and holds no lock
  ASSERT_EQ(::tgkill(::getpid(), worker, SIGUSR1), 0);
  char byte = 0;
  ASSERT_EQ(::read(held_up[0], &byte, 1), 1);

  int num_run = 0;
  team.for_each(100, [&](std::int64_t, std::size_t worker_idx) {
    EXPECT_EQ(worker_idx, 0U);
    ++num_run;
  });
  EXPECT_EQ(num_run, 100);

  ASSERT_EQ(::write(goes_on[1], &byte, 1), 1);
  team.for_each(2, [&](std::int64_t, std::size_t) { both.arrive_and_wait(); });  // it is there again
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
  for (const int fd : {held_up[0], held_up[1], goes_on[0], goes_on[1]}) ::close(fd);
}

}  // namespace
}  // namespace sluice
