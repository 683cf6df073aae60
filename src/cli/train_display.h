// SPDX-License-Identifier: Apache-2.0
// Progress of a training run for the user: a live area on a terminal, one line per logged step without a terminal, or
// one JSON object per line; the same steps go to train.log. Called from the training thread.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cli/train_area.h"
#include "cli/train_outputs.h"
#include "cli/work_display.h"
#include "train/trainer.h"

namespace sluice {

// What is read off a run while it goes.
struct RunGauges {
  TierBudgets budgets;
  std::function<SessionUse()> use;
  std::function<LaneSeconds()> lanes;  // busy, since the start
};

struct TrainDisplayOptions {
  RunGauges gauges;
  std::uint64_t step = 0;  // the step that the run starts from
  std::uint64_t total_steps = 0;
  double elapsed_s = 0;             // training time of earlier sessions
  std::uint64_t logging_steps = 1;  // steps between two log lines
  bool shows_lanes = false;
};

// State became durable.
struct CommitNews {
  std::uint64_t step = 0;
  std::optional<double> next_s;  // time until the next commit
};

class TrainDisplay {
 public:
  TrainDisplay(WorkDisplay& work, TrainOutputs& outputs, TrainDisplayOptions options);
  ~TrainDisplay();
  TrainDisplay(const TrainDisplay&) = delete;
  TrainDisplay& operator=(const TrainDisplay&) = delete;

  TrainObserver observer();
  void committed(const CommitNews& news);
  void finish();  // removes the live area; the destructor does it too

  double mean_step_tokens() const { return num_seen_ > 0 ? num_tokens_ / static_cast<double>(num_seen_) : 0; }
  std::optional<double> held_out_loss() const { return state_.held_out_loss; }

 private:
  void step(const StepReport& report);
  void evaluated(std::uint64_t step, double loss);
  void saved(const std::string& path);
  void measure_lanes(double weight);
  void add_loss(double loss);
  TrainAreaState state_now();

  WorkDisplay& work_;
  TrainOutputs& outputs_;
  TrainDisplayOptions options_;
  SteadyClock clock_;
  std::mutex mutex_;  // guards the state and the times below; lock order: screen, then this
  TrainAreaState state_;
  std::int64_t state_ns_;  // when state_'s elapsed and remaining times were set
  std::optional<std::int64_t> commit_ns_, checkpoint_ns_, next_commit_ns_;
  std::size_t losses_a_value_ = 1;
  std::size_t losses_in_last_ = 0;
  double smooth_loss_ = 0;
  double smooth_seconds_ = 0;
  double num_tokens_ = 0;
  std::uint64_t num_seen_ = 0;
  LaneSeconds lane_shares_{};  // of the last steps
  LaneSeconds last_busy_s_{};
  std::int64_t last_step_ns_;
};

}  // namespace sluice
