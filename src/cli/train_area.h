// SPDX-License-Identifier: Apache-2.0
// The live lines of a training run: progress, loss, throughput, memory, last checkpoint and commit. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/placement.h"
#include "tier/lane_trace.h"
#include "train/training_session.h"

namespace sluice {

enum class AreaColours : std::uint8_t { kNone, kSome };

struct TrainAreaState {
  std::uint64_t step = 0;
  std::uint64_t total_steps = 0;
  double epoch = 0;
  std::optional<double> left_s;  // time until the last step
  double elapsed_s = 0;          // over all sessions of the run

  // nullopt: before the first step of this session.
  struct Learning {
    double loss = 0;  // a running mean
    double grad_norm = 0;
    double learning_rate = 0;
    double tokens_per_s = 0;
    double step_s = 0;
    LaneSeconds lane_shares{};  // busy fraction over the last steps
  };
  std::optional<Learning> learning;
  std::vector<double> losses;  // points of the loss curve
  std::optional<double> held_out_loss;

  SessionUse use;
  TierBudgets budgets;

  struct Kept {
    std::uint64_t step = 0;
    double age_s = 0;
  };
  std::optional<Kept> commit;
  std::optional<double> next_commit_s;
  std::optional<Kept> checkpoint;

  bool shows_lanes = false;
};

// Five lines, and further ones for the lanes.
std::vector<std::string> render_train_area(const TrainAreaState& state, std::size_t num_columns, AreaColours colours);

// "step 3/8  epoch 0.38  loss 1.2345  …": a line of a log.
std::string train_step_text(const TrainAreaState& state);

}  // namespace sluice
