// SPDX-License-Identifier: Apache-2.0
// For tests: a process that trains, killed again and again, each time after a few steps and a little more, then left to
// end. Whoever uses this has no threads, which a fork would lose.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/random.h"

namespace sluice {

// How a training process tells of itself, and is held back: were it free to run on, a slow reader would find it ended.
class StepTeller {
 public:
  // leave: where it reads a byte for each step more; where that has ended it may run on.
  StepTeller(int pipe, int leave) : pipe_(pipe), leave_(leave) {}
  // committed_step: where it goes on from.
  void began(std::int64_t committed_step) { tell(committed_step > 0 ? kResumed : kBegan); }
  void stepped() {
    tell(kStepped);
    char leave = 0;
    EXPECT_GE(::read(leave_, &leave, 1), 0);
  }

  static constexpr char kBegan = 'b';
  static constexpr char kResumed = 'r';
  static constexpr char kStepped = 's';

 private:
  void tell(char what) { EXPECT_EQ(::write(pipe_, &what, 1), 1); }

  int pipe_;
  int leave_;
};

struct Killed {
  int num_killed = 0;
  int num_resumed = 0;  // processes that went on from some step
};

// `train` runs to the end, from wherever its store is; it is told how many were killed before it. Kills come after at
// most `max_steps` steps, anywhere in the two that follow: where a commit is made every few, that many are to be more.
inline Killed kill_and_resume(int num_kills, std::uint64_t max_steps,
                              const std::function<void(int num_killed, StepTeller teller)>& train) {
  constexpr std::uint64_t kStepsAhead = 2;
  const SteadyClock clock;
  Random random(5);
  Killed killed;
  for (;;) {
    std::array<int, 2> told{};
    std::array<int, 2> leave{};
    EXPECT_EQ(::pipe(told.data()), 0);
    EXPECT_EQ(::pipe(leave.data()), 0);
    const pid_t child = ::fork();
    EXPECT_GE(child, 0);
    if (child < 0) return killed;
    if (child == 0) {
      ::close(told[0]);
      ::close(leave[1]);
      train(killed.num_killed, StepTeller(told[1], leave[0]));
      std::_Exit(testing::Test::HasFailure() ? 1 : 0);
    }
    ::close(told[1]);
    ::close(leave[0]);
    std::uint64_t steps_left = random.below(max_steps + 1);
    const bool is_to_be_killed = killed.num_killed < num_kills;
    if (is_to_be_killed) {
      // The first step needs no leave.
      const std::string steps(steps_left + kStepsAhead - 1, '+');
      EXPECT_EQ(::write(leave[1], steps.data(), steps.size()), static_cast<ssize_t>(steps.size()));
    } else {
      ::close(leave[1]);
    }
    std::int64_t step_ns = 10'000'000;  // until one was seen
    std::int64_t last_ns = clock.now_ns();
    char what = 0;
    while (::read(told[0], &what, 1) == 1) {
      if (what == StepTeller::kResumed) ++killed.num_resumed;
      if (!is_to_be_killed) continue;
      if (what == StepTeller::kStepped) {
        step_ns = clock.now_ns() - last_ns;
        if (steps_left > 0) --steps_left;
      }
      last_ns = clock.now_ns();
      if (steps_left > 0) continue;
      const std::uint64_t moment_ns = random.below(kStepsAhead * static_cast<std::uint64_t>(step_ns) + 1);
      // NOLINTNEXTLINE: the moment is what is tried, not what is waited for
      std::this_thread::sleep_for(std::chrono::nanoseconds(moment_ns));
      ::kill(child, SIGKILL);
      break;
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ::close(told[0]);
    if (is_to_be_killed) ::close(leave[1]);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      return killed;
    }
    if (!is_to_be_killed || WTERMSIG(status) != SIGKILL) {
      ADD_FAILURE() << "the process ended by signal " << WTERMSIG(status) << " on its own";
      return killed;
    }
    ++killed.num_killed;
  }
}

}  // namespace sluice
