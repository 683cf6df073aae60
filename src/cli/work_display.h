// SPDX-License-Identifier: Apache-2.0
// Progress bar and Ctrl-C handling of a long verb. On a terminal the bar disappears when the work is done; elsewhere
// long work prints a line now and then. One object per piece of work; report() is thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/progress.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"
#include "cli/terminal_screen.h"

namespace sluice {

// When a verb writes to standard output; while it works, there is no live area on the same terminal.
enum class OutputTime : std::uint8_t { kAfterwards, kMeanwhile };

// Decides when the next progress line is due on a stream without cursor control.
class PlainProgress {
 public:
  // Whether a line is due for this state: every 10 % but at most every 5 s, and at least every 30 s.
  bool is_due(const ProgressState& state);

 private:
  std::string label_;
  double told_s_ = 0;
  double told_fraction_ = 0;
};

class WorkDisplay {
 public:
  explicit WorkDisplay(OutputTime output = OutputTime::kAfterwards);
  ~WorkDisplay();

  ProgressSink sink();
  TerminalScreen& screen() { return screen_; }
  // The bar; nullopt: no work is in progress.
  std::optional<std::string> bar(std::size_t num_columns);
  // Removes the bar. Ctrl-C is still noticed.
  void finish();
  // Reports once that the work is stopping if the user has asked for that; otherwise the screen's next tick does.
  void tell_of_interrupt();

 private:
  void report(const WorkProgress& progress);

  SteadyClock clock_;
  InterruptGuard guard_;
  std::mutex mutex_;  // guards the bar's state; lock order: screen, then this
  std::optional<ProgressState> state_;
  std::uint64_t first_done_ = 0;
  std::int64_t start_ns_ = 0;
  PlainProgress plain_;
  std::atomic<bool> has_told_of_interrupt_ = false;
  TerminalScreen screen_;  // last member: its thread uses the others
};

}  // namespace sluice
