// SPDX-License-Identifier: Apache-2.0
// What a person sees of a run: a few lines that are drawn over on a terminal, a line now and then where there is none,
// or a JSON object a line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "plan/placement.h"
#include "tier/lane_trace.h"
#include "train/trainer.h"

namespace sluice {

enum class TrainOutput : std::uint8_t { kText, kJson };

// What is read off a run while it goes.
struct RunGauges {
  TierBudgets budgets;
  std::function<SessionUse()> use;
  std::function<LaneSeconds()> lanes;  // busy, since the start
};

class TrainDisplay {
 public:
  TrainDisplay(TrainOutput output, RunGauges gauges);
  ~TrainDisplay();
  TrainDisplay(const TrainDisplay&) = delete;
  TrainDisplay& operator=(const TrainDisplay&) = delete;

  TrainObserver observer();
  void finish();  // what is printed next begins a line; the destructor does it too
  TrainOutput output() const { return output_; }
  double mean_step_tokens() const { return num_seen_ > 0 ? num_tokens_ / static_cast<double>(num_seen_) : 0; }

 private:
  void step(const StepReport& report);
  void measure_lanes(double weight);
  void draw(const std::vector<std::string>& lines);
  void line(const std::string& text);  // above the live lines

  TrainOutput output_;
  RunGauges gauges_;
  bool live_;
  SteadyClock clock_;
  std::size_t num_drawn_ = 0;  // lines
  bool interrupted_ = false;   // as far as is seen in what is drawn
  double smooth_loss_ = 0;
  double smooth_seconds_ = 0;
  double num_tokens_ = 0;
  std::uint64_t num_seen_ = 0;
  std::int64_t last_draw_ns_ = 0;
  LaneSeconds lane_shares_{};  // of the last steps
  LaneSeconds last_busy_s_{};
  std::int64_t last_step_ns_ = 0;
};

}  // namespace sluice
