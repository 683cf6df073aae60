// SPDX-License-Identifier: Apache-2.0
// The one writer of standard error while work goes on: messages and log lines above, a live area below them.
//
//   reading rows: 3 rows were left out          messages: stay, are wrapped between words
//   warning: the trace ends here
//   train  ▕███████▌        ▏  37 %  step 3/8   live area: painted anew about ten times a second, gone at the end
//   loss   1.2345 ▇▅▃▂▁  lr 1.0e-03
//   _                                           the cursor, so that a killed process leaves a line to go on with
//
// Where lines cannot be drawn over (a pipe, a file, TERM=dumb) there are messages alone, without escape codes. A stream
// that fails is given up: nothing is printed there any more, and work goes on. Thread-safe.
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
  // Called about ten times a second, without a lock held. Without it nothing is painted but by tick().
  std::function<void()> on_tick = nullptr;
};

class TerminalScreen {
 public:
  // The live area's lines, each of at most so many columns. Called with the screen's lock held: it must not print.
  using Painter = std::function<std::vector<std::string>(std::size_t num_columns)>;

  explicit TerminalScreen(ScreenOptions options);
  // Removes the live area.
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  bool redraws() const { return options_.redraws; }
  bool colours() const { return options_.colours; }

  // A message of one or more lines, without a line feed at its end; control characters of others are made visible.
  void print(std::string_view message);
  // Null: none. The area of before is removed at once.
  void set_area(Painter painter);
  bool has_area() const;  // on the screen
  // Paints the area if it has changed.
  void tick();

  // `listener` is given every message as well, those of before at once. Called with the lock held: it must not print.
  void set_listener(std::function<void(const std::string& message)> listener);
  // Why the stream was given up; empty: it was not. Told once to the listener too.
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
  std::vector<std::string> area_;   // as it is on the screen
  std::size_t area_columns_ = 0;    // of the terminal when it was drawn
  std::string waiting_;             // messages that the stream has not taken yet
  std::vector<std::string> early_;  // messages before there was a listener
  std::function<void(const std::string&)> listener_;
  std::string failure_;
  bool ends_ = false;
  std::condition_variable end_;
  LogRedirect log_;
  std::thread ticks_;  // the last member: it uses the others
};

}  // namespace sluice
