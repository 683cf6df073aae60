// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"

namespace sluice {
namespace {

std::vector<PackedDocuments> documents_of(const TrainingStep& step) {
  std::vector<PackedDocuments> batches;
  batches.reserve(step.micro_batches.size());
  for (const MicroBatch& batch : step.micro_batches) {
    PackedDocuments documents;
    documents.reserve(batch.documents.size());
    for (const Example& example : batch.documents) documents.push_back({.ids = example.ids, .labels = example.labels});
    batches.push_back(std::move(documents));
  }
  return batches;
}

}  // namespace

std::string RunPosition::to_note() const {
  nlohmann::ordered_json note{{"step", step},
                              {"epoch", data.epoch},
                              {"step_in_epoch", data.step_in_epoch},
                              {"total_tokens", total_tokens},
                              {"best_step", best_step},
                              {"evaluations_since_best", evaluations_since_best}};
  if (best_loss) note["best_loss"] = *best_loss;
  return note.dump();
}

RunPosition RunPosition::from_note(const std::string& note) {
  const nlohmann::json json = nlohmann::json::parse(note, nullptr, false);
  RunPosition position;
  try {
    json.at("step").get_to(position.step);
    json.at("epoch").get_to(position.data.epoch);
    json.at("step_in_epoch").get_to(position.data.step_in_epoch);
    json.at("total_tokens").get_to(position.total_tokens);
    json.at("best_step").get_to(position.best_step);
    json.at("evaluations_since_best").get_to(position.evaluations_since_best);
    if (json.contains("best_loss")) position.best_loss = json.at("best_loss").get<double>();
  } catch (const nlohmann::json::exception&) {
    throw FormatError(
        fmt::format("the store's last commit says '{}', which is not of a training run; do the cache "
                    "directories belong to this run?",
                    note.substr(0, 200)));
  }
  return position;
}

std::uint64_t Trainer::count_steps(const TrainConfig& config, BatchLoader& loader) {
  if (config.max_steps) return *config.max_steps;
  double left = config.num_epochs;
  std::uint64_t steps = 0;
  for (std::uint64_t epoch = 0; left > 0; ++epoch, left -= 1) {
    const auto whole = static_cast<double>(loader.num_steps(epoch));
    steps += static_cast<std::uint64_t>(std::ceil(whole * std::min(left, 1.0)));
  }
  return std::max<std::uint64_t>(steps, 1);
}

Trainer::Trainer(Parts parts, RunPosition position, std::uint64_t total_steps)
    : parts_(parts),
      config_(*parts.config),
      position_(position),
      total_steps_(total_steps),
      schedule_{.scheduler = config_.lr_scheduler,
                .peak_lr = config_.learning_rate,
                .warmup_steps = warmup_steps_of(config_.warmup_steps, config_.warmup_ratio, total_steps),
                .total_steps = total_steps} {
  parts_.train->seek(position_.data);
}

double Trainer::epoch() const {
  const LoaderState& state = position_.data;
  const auto steps = static_cast<double>(parts_.train->num_steps(state.epoch));
  return static_cast<double>(state.epoch) + static_cast<double>(state.step_in_epoch) / steps;
}

bool Trainer::is_due(RunStrategy strategy, const StepInterval& interval) const {
  switch (strategy) {
    case RunStrategy::kNo:
      return false;
    case RunStrategy::kSteps:
      return position_.step % interval.resolve(total_steps_) == 0;
    case RunStrategy::kEpoch:
      return epoch_ended_ || position_.step == total_steps_;
  }
  return false;
}

StepReport Trainer::run_step() {
  const Stopwatch stopwatch(*parts_.clock);
  const TrainingStep data = parts_.train->next();
  const std::vector<PackedDocuments> batches = documents_of(data);
  RunPosition after = position_;
  after.step = position_.step + 1;
  after.data = parts_.train->state();
  for (const MicroBatch& batch : data.micro_batches) after.total_tokens += batch.num_tokens();
  const double rate = schedule_.rate(position_.step);
  UpdateSettings settings{.adam = {.learning_rate = rate,
                                   .beta1 = config_.adam_beta1,
                                   .beta2 = config_.adam_beta2,
                                   .eps = config_.adam_epsilon,
                                   .weight_decay = config_.weight_decay,
                                   .step = static_cast<std::int64_t>(after.step)},
                          .max_grad_norm = config_.max_grad_norm};
  SessionStep done;
  try {
    done = parts_.session->step(batches, settings, after.to_note());
  } catch (const InvalidInput& error) {
    // The state is that of the step before: keep it.
    parts_.session->commit(position_.to_note());
    throw InvalidInput(fmt::format("step {}: {}", after.step, error.what()));
  }
  epoch_ended_ = after.data.epoch != position_.data.epoch;
  position_ = after;
  return {.step = position_.step,
          .total_steps = total_steps_,
          .epoch = epoch(),
          .loss = done.result.loss,
          .grad_norm = done.grad_norm,
          .learning_rate = rate,
          .num_tokens = done.result.num_tokens,
          .seconds = stopwatch.seconds()};
}

double Trainer::evaluate() {
  BatchLoader& loader = *parts_.held_out;
  loader.seek({});
  double total = 0;
  std::int64_t num_labels = 0;
  const std::uint64_t num_steps = loader.num_steps(0);
  for (std::uint64_t idx = 0; idx < num_steps; ++idx) {
    const TrainingStep data = loader.next();
    const StepResult result = parts_.session->evaluate(documents_of(data));
    total += result.loss * static_cast<double>(result.num_labels);
    num_labels += result.num_labels;
  }
  return total / static_cast<double>(num_labels);
}

void Trainer::evaluate_and_judge(const TrainObserver& observer) {
  const double loss = evaluate();
  parts_.log->log(EvaluationEntry{.loss = loss});
  if (!position_.best_loss || loss < *position_.best_loss) {
    position_.best_loss = loss;
    position_.best_step = position_.step;
    position_.evaluations_since_best = 0;
    parts_.log->set_best(loss, parts_.folder->path(RunFolder::checkpoint_name(position_.step)));
  } else {
    ++position_.evaluations_since_best;
  }
  observer.on_evaluation(position_.step, loss);
}

void Trainer::save(const TrainObserver& observer) {
  TrainingSession& session = *parts_.session;
  session.commit(position_.to_note());
  const std::string name = RunFolder::checkpoint_name(position_.step);
  session.keep_snapshot(name);
  parts_.folder->save_checkpoint(
      position_.step, [&](std::size_t slice_idx) { return session.weights(slice_idx); },
      [&](const std::string& folder) { parts_.log->save_state(folder); });
  if (config_.save_total_limit) {
    std::vector<std::uint64_t> steps = parts_.folder->checkpoints();
    // The best one stays, as in Hugging Face's Trainer.
    if (config_.load_best_model_at_end && position_.best_loss) {
      steps.erase(std::remove(steps.begin(), steps.end(), position_.best_step), steps.end());
    }
    const std::uint64_t limit = std::max<std::uint64_t>(*config_.save_total_limit, 1);
    for (std::size_t idx = 0; idx + limit < steps.size(); ++idx) {
      session.drop_snapshot(RunFolder::checkpoint_name(steps[idx]));
      parts_.folder->remove_checkpoint(steps[idx]);
    }
  }
  parts_.log->save();
  observer.on_saved(parts_.folder->path(name));
}

RunSummary Trainer::run(const TrainObserver& observer, const ProgressSink& progress) {
  const Stopwatch stopwatch(*parts_.clock);
  RunSummary summary;
  const std::uint64_t first_step = position_.step;
  double loss_sum = 0;
  double later_seconds = 0;
  while (position_.step < total_steps_ && summary.end == RunEnd::kFinished) {
    const StepReport report = run_step();
    loss_sum += report.loss;
    if (position_.step > first_step + 1) later_seconds += report.seconds;
    parts_.log->reach({.step = position_.step, .epoch = report.epoch, .total_tokens = position_.total_tokens});
    if (position_.step % config_.logging_steps.resolve(total_steps_) == 0 || position_.step == total_steps_) {
      parts_.log->log(
          TrainingEntry{.loss = report.loss, .grad_norm = report.grad_norm, .learning_rate = report.learning_rate});
    }
    observer.on_step(report);
    const bool is_last = position_.step == total_steps_;
    if (parts_.held_out != nullptr && (is_due(config_.eval_strategy, config_.eval_steps) || is_last)) {
      evaluate_and_judge(observer);
      if (config_.early_stopping_patience && position_.evaluations_since_best >= *config_.early_stopping_patience) {
        summary.end = RunEnd::kEarlyStop;
      }
    }
    const bool interrupted = progress.interrupted();
    if (interrupted && !is_last) summary.end = RunEnd::kInterrupted;
    if (is_due(config_.save_strategy, config_.save_steps) && !interrupted) save(observer);
  }
  parts_.session->commit(position_.to_note());
  parts_.log->save();
  const std::uint64_t num_steps = position_.step - first_step;
  summary.steps = position_.step;
  summary.total_tokens = position_.total_tokens;
  summary.seconds = stopwatch.seconds();
  summary.best_loss = position_.best_loss;
  if (num_steps > 0) summary.loss = loss_sum / static_cast<double>(num_steps);
  if (num_steps > 1) summary.step_seconds = later_seconds / static_cast<double>(num_steps - 1);
  if (summary.end == RunEnd::kInterrupted) return summary;
  const bool best = config_.load_best_model_at_end && position_.best_loss && position_.best_step != position_.step &&
                    parts_.session->has_snapshot(RunFolder::checkpoint_name(position_.best_step));
  parts_.folder->save_model(
      [&](std::size_t slice_idx) {
        return best ? parts_.session->weights_in(RunFolder::checkpoint_name(position_.best_step), slice_idx)
                    : parts_.session->weights(slice_idx);
      },
      progress);
  observer.on_saved(parts_.folder->path(""));
  return summary;
}

}  // namespace sluice
