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
#include <thread>

#include <gtest/gtest.h>

#include "base/random.h"

namespace sluice {

// How a training process tells of itself.
class StepTeller {
 public:
  explicit StepTeller(int pipe) : pipe_(pipe) {}
  // committed_step: where it goes on from.
  void began(std::int64_t committed_step) { tell(committed_step > 0 ? kResumed : kBegan); }
  void stepped() { tell(kStepped); }

  static constexpr char kBegan = 'b';
  static constexpr char kResumed = 'r';
  static constexpr char kStepped = 's';

 private:
  void tell(char what) { EXPECT_EQ(::write(pipe_, &what, 1), 1); }

  int pipe_;
};

struct Killed {
  int num_killed = 0;
  int num_resumed = 0;  // processes that went on from some step
};

// `train` runs to the end, from wherever its store is; it is told how many were killed before it. Kills come after at
// most `max_steps` steps: where a commit is made every few, that many are to be more.
inline Killed kill_and_resume(int num_kills, std::uint64_t max_steps,
                              const std::function<void(int num_killed, StepTeller teller)>& train) {
  Random random(5);
  Killed killed;
  for (;;) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(pipe[0]);
      train(killed.num_killed, StepTeller(pipe[1]));
      std::_Exit(testing::Test::HasFailure() ? 1 : 0);
    }
    ::close(pipe[1]);
    std::uint64_t steps_left = random.below(max_steps + 1);
    char what = 0;
    while (::read(pipe[0], &what, 1) == 1) {
      if (what == StepTeller::kResumed) ++killed.num_resumed;
      if (killed.num_killed == num_kills) continue;
      if (what == StepTeller::kStepped && steps_left > 0) --steps_left;
      if (steps_left > 0) continue;
      // NOLINTNEXTLINE: the moment is what is tried, not what is waited for
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(20000)));
      ::kill(child, SIGKILL);
    }
    ::close(pipe[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      return killed;
    }
    ++killed.num_killed;
  }
}

}  // namespace sluice
