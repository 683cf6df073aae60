// SPDX-License-Identifier: Apache-2.0
// Sole writer of standard error during long work: messages and log lines above, a live area below them.
//
//   reading rows: 3 rows were left out          messages: stay, wrapped between words
//   warning: the trace ends here
//   train  ▕███████▌        ▏  37 %  step 3/8   live area: repainted about ten times a second, removed at the end
//   loss   1.2345 ▇▅▃▂▁  lr 1.0e-03
//   _                                           the cursor, so that a killed process leaves a line to go on with
//
// On a stream without cursor control (a pipe, a file, TERM=dumb) only messages are printed, without escape codes. After
// a write error the stream is closed for further output, and the work goes on. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/log.h"

namespace sluice {

struct ScreenOptions {
  int fd = 2;
  bool redraws = false;
  bool colours = false;
  // Called about ten times a second, without a lock held. Empty: only tick() paints.
  std::function<void()> on_tick = nullptr;
};

class TerminalScreen {
 public:
  // Returns the live area's lines, each at most `num_columns` wide. Called with the screen's lock held: it must not
  // print.
  using Painter = std::function<std::vector<std::string>(std::size_t num_columns)>;

  explicit TerminalScreen(ScreenOptions options);
  // Removes the live area.
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  bool redraws() const { return options_.redraws; }
  bool colours() const { return options_.colours; }

  // Prints a message of one or more lines, without a trailing line feed; control characters are made visible.
  void print(std::string_view message);
  // Replaces the live area, removing the old one at once. nullptr: no area.
  void set_area(Painter painter);
  bool has_area() const;  // whether an area is on the screen now
  // Paints the area if it has changed.
  void tick();

  // `listener` receives every message, at once those printed before. Called with the lock held: it must not print.
  void set_listener(std::function<void(const std::string& message)> listener);
  // Reason of the write error that closed the stream; empty: none. The listener is told once.
  std::string failure() const;

 private:
  void run_ticks();
  void say(std::string message);
  void draw();
  std::string erasing(std::size_t num_columns) const;
  bool is_writable() const;
  void write(std::string_view text);

  ScreenOptions options_;
  mutable std::mutex mutex_;
  Painter painter_;
  std::vector<std::string> area_;   // the lines on the screen
  std::size_t area_columns_ = 0;    // the terminal's width when the area was drawn
  std::string waiting_;             // messages not yet written to the stream
  std::vector<std::string> early_;  // messages printed before a listener was set
  std::function<void(const std::string&)> listener_;
  std::string failure_;
  bool ends_ = false;
  std::condition_variable end_;
  LogRedirect log_;
  std::thread ticks_;  // last member: its thread uses the others
};

}  // namespace sluice
