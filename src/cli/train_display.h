// SPDX-License-Identifier: Apache-2.0
// What a person sees of a run: one line that is drawn over on a terminal, a line now and then where there is none, or
// a JSON object a line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "base/clock.h"
#include "train/trainer.h"

namespace sluice {

enum class TrainOutput : std::uint8_t { kText, kJson };

class TrainDisplay {
 public:
  explicit TrainDisplay(TrainOutput output);
  ~TrainDisplay();
  TrainDisplay(const TrainDisplay&) = delete;
  TrainDisplay& operator=(const TrainDisplay&) = delete;

  TrainObserver observer();

 private:
  void step(const StepReport& report);
  void line(const std::string& text);  // above the live line
  void close_line();

  TrainOutput output_;
  bool live_;
  SteadyClock clock_;
  bool line_open_ = false;
  std::size_t drawn_width_ = 0;
  double smooth_loss_ = 0;
  double smooth_seconds_ = 0;
  std::uint64_t num_seen_ = 0;
  std::int64_t last_draw_ns_ = 0;
};

}  // namespace sluice
