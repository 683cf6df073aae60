// SPDX-License-Identifier: Apache-2.0
// trainer_state.json, as Hugging Face's Trainer writes and reads it: how far a run is and what it has logged. A loss
// that is not a number is null there. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

inline constexpr std::string_view kTrainerStateName = "trainer_state.json";

// A line of log_history: of training (loss and what goes with it) or of an evaluation.
struct HistoryEntry {
  std::uint64_t step = 0;
  double epoch = 0;
  std::optional<double> loss;
  std::optional<double> grad_norm;
  std::optional<double> learning_rate;
  std::optional<double> eval_loss;
};

struct TrainerState {
  std::uint64_t global_step = 0;
  std::uint64_t max_steps = 0;
  double epoch = 0;
  double num_train_epochs = 0;
  std::uint64_t logging_steps = 1;
  std::uint64_t eval_steps = 1;
  std::uint64_t save_steps = 1;
  std::uint64_t train_batch_size = 1;
  std::uint64_t num_input_tokens_seen = 0;
  std::optional<double> best_metric;
  std::optional<std::string> best_model_checkpoint;
  std::vector<HistoryEntry> log_history;

  // Forgets what was logged after `step`.
  void rewind(std::uint64_t step);
};

std::string trainer_state_json(const TrainerState& state);
// `where` names the text in failures. Throws FormatError where it is not such a file.
TrainerState parse_trainer_state(std::string_view text, const std::string& where);

// trainer_state.json of a folder; it appears by rename.
void write_trainer_state(FileSystem& files, IoEngine& engine, const std::string& folder, const TrainerState& state);
TrainerState read_trainer_state(FileSystem& files, IoEngine& engine, const std::string& folder);

}  // namespace sluice
