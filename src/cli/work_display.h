// SPDX-License-Identifier: Apache-2.0
// What every long verb needs: a progress bar while it works and a Ctrl-C that it notices. On a terminal the bar is gone
// when its work is done; elsewhere long work prints a line now and then. Lives for one piece of work; report() may come
// from any thread.
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

// Verbs that write to standard output while they work have no live area on the same terminal.
enum class OutputTime : std::uint8_t { kAfterwards, kMeanwhile };

// Where lines cannot be drawn over: when the next of them is due.
class PlainProgress {
 public:
  // Whether a line is due for this state, every 10 % but not within 5 s of the last, and every 30 s.
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
  // The bar, while there is work to show.
  std::optional<std::string> bar(std::size_t num_columns);
  // Removes the bar. Ctrl-C is still noticed.
  void finish();
  // Says, once, that the work stops where the user has asked for that; else the next tick of the screen does.
  void tell_of_interrupt();

 private:
  void report(const WorkProgress& progress);

  SteadyClock clock_;
  InterruptGuard guard_;
  std::mutex mutex_;  // of what the bar shows; the screen's lock is taken before it
  std::optional<ProgressState> state_;
  std::uint64_t first_done_ = 0;
  std::int64_t start_ns_ = 0;
  PlainProgress plain_;
  std::atomic<bool> has_told_of_interrupt_ = false;
  TerminalScreen screen_;  // the last member: its thread uses the others
};

}  // namespace sluice
