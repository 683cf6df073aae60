// SPDX-License-Identifier: Apache-2.0
// Lets long work end in good order on Ctrl-C or SIGTERM: while a guard lives, the first signal only sets a flag that
// the work looks at; the work's display tells the user. The second ends the process then and there, also where the work
// hangs; what was committed is kept. Both exit with 130. One guard at a time; requested() may be called from any
// thread.
#pragma once

#include <signal.h>

namespace sluice {

class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // Whether a signal came since the latest guard was made.
  static bool requested();

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
};

}  // namespace sluice
