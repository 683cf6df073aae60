// SPDX-License-Identifier: Apache-2.0
// What every long verb needs: a progress bar while it works and a Ctrl-C that it notices. Lives for one piece of work.
#pragma once

#include "base/clock.h"
#include "base/progress.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"

namespace sluice {

class WorkDisplay {
 public:
  WorkDisplay() : bar_(clock_) {}

  ProgressSink sink() {
    return {.report = [this](std::string_view what, std::uint64_t done,
                             std::uint64_t total) { bar_.update(what, done, total); },
            .interrupted = [] { return InterruptGuard::requested(); }};
  }
  void finish() { bar_.finish(); }

 private:
  SteadyClock clock_;
  InterruptGuard guard_;
  ProgressBar bar_;
};

}  // namespace sluice
