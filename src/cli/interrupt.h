// SPDX-License-Identifier: Apache-2.0
// Ends long work in good order on Ctrl-C, SIGTERM or SIGHUP (a closed terminal): while a guard lives, the first signal
// only sets a flag that the work polls. A second Ctrl-C or SIGTERM exits at once, even if the work hangs; committed
// state survives. Both exit with 130. An ignored SIGHUP (nohup) stays ignored. One guard at a time; requested() is
// thread-safe.
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
  struct sigaction old_hangup_ {};
};

}  // namespace sluice
