// SPDX-License-Identifier: Apache-2.0
#include "train/run_notes.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "train/lr_schedule.h"

namespace sluice {
namespace {

void note_intervals(std::vector<std::string>& notes, const TrainConfig& config, std::uint64_t total_steps) {
  const auto is_beyond = [&](const StepInterval& interval) { return interval.resolve(total_steps) > total_steps; };
  const auto note = [&](std::string_view key, const StepInterval& interval, std::string_view what) {
    notes.push_back(
        fmt::format("{} is {}, and the run has {} steps: {}", key, interval.resolve(total_steps), total_steps, what));
  };
  if (config.save_strategy == RunStrategy::kSteps && is_beyond(config.save_steps)) {
    note("save_steps", config.save_steps, "there is no checkpoint before its end");
  }
  if (is_beyond(config.logging_steps)) note("logging_steps", config.logging_steps, "its last step alone is logged");
  const bool holds_out = !config.test_datasets.empty() || config.val_set_size > 0;
  if (!holds_out || config.eval_strategy != RunStrategy::kSteps) return;
  if (is_beyond(config.eval_steps)) {
    note("eval_steps", config.eval_steps, "the held-out loss is measured at its end alone");
  }
  const std::uint64_t interval = config.eval_steps.resolve(total_steps);
  const std::uint64_t num_evaluations = (total_steps + interval - 1) / interval;
  if (config.early_stopping_patience && *config.early_stopping_patience >= num_evaluations) {
    notes.push_back(fmt::format("early_stopping_patience is {}, and the run has {} evaluation{}: it cannot end early",
                                *config.early_stopping_patience, num_evaluations, num_evaluations == 1 ? "" : "s"));
  }
}

}  // namespace

std::int64_t context_tokens(const Architecture& arch) {
  if (arch.learned_positions > 0) return arch.learned_positions - arch.position_offset;
  std::int64_t most = arch.max_positions;
  for (const Rope& rope : arch.ropes) {
    if (rope.scaling == RopeScaling::kNone) continue;
    // max_position_embeddings is the scaled length if original_max_position_embeddings is given, otherwise the
    // original.
    const std::int64_t before = rope.original_max_positions > 0 ? rope.original_max_positions : arch.max_positions;
    most = std::max(most, static_cast<std::int64_t>(static_cast<double>(before) * std::max(rope.factor, 1.0)));
  }
  return most;
}

std::vector<std::string> run_notes(const TrainConfig& config, const Architecture& arch, std::uint64_t total_steps) {
  std::vector<std::string> notes;
  const std::int64_t context = context_tokens(arch);
  if (context > 0 && config.sequence_len > static_cast<std::uint64_t>(context)) {
    notes.push_back(fmt::format(
        "sequence_len is {}, and the model was made for {} positions (max_position_embeddings): longer rows "
        "are trained at positions that it has never seen",
        config.sequence_len, context));
  }
  const std::uint64_t warmup = warmup_steps_of(config.warmup_steps, config.warmup_ratio, total_steps);
  if (config.lr_scheduler != LrScheduler::kConstant && warmup >= total_steps && total_steps > 1) {
    notes.push_back(fmt::format("the warm-up takes {} steps, and the run has {}: learning_rate is never reached",
                                warmup, total_steps));
  }
  note_intervals(notes, config, total_steps);
  return notes;
}

}  // namespace sluice
