// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"

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

bool RunPosition::judge(double loss) {
  evaluated_step = step;
  const bool is_best = std::isfinite(loss) && (!best_loss || loss < *best_loss);
  if (!is_best) {
    ++evaluations_since_best;
    return false;
  }
  best_loss = loss;
  best_step = step;
  evaluations_since_best = 0;
  return true;
}

std::string RunPosition::to_note() const {
  nlohmann::ordered_json note{{"step", step},
                              {"epoch", data.epoch},
                              {"step_in_epoch", data.step_in_epoch},
                              {"total_tokens", total_tokens},
                              {"best_step", best_step},
                              {"evaluations_since_best", evaluations_since_best},
                              {"evaluated_step", evaluated_step},
                              {"elapsed_s", std::round(elapsed_s * 1e3) / 1e3}};
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
    json.at("evaluated_step").get_to(position.evaluated_step);
    const auto best_loss = json.find("best_loss");  // null: it was not finite
    if (best_loss != json.end() && !best_loss->is_null()) position.best_loss = best_loss->get<double>();
    position.elapsed_s = json.value("elapsed_s", 0.0);  // absent in runs of older versions
  } catch (const nlohmann::json::exception&) {
    throw FormatError(
        fmt::format("the store's last commit says '{}', which is not of a training run; do the cache "
                    "directories belong to this run?",
                    note.substr(0, 200)));
  }
  return position;
}

std::uint64_t Trainer::count_steps(const TrainConfig& config, BatchLoader& loader,
                                   const std::function<bool()>& interrupted) {
  if (config.max_steps) return *config.max_steps;
  double left = config.num_epochs;
  std::uint64_t steps = 0;
  for (std::uint64_t epoch = 0; left > 0; ++epoch, left -= 1) {
    const auto whole = static_cast<double>(loader.num_steps(epoch, interrupted));
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
                .total_steps = total_steps},
      stopwatch_(*parts.clock),
      elapsed_before_s_(position.elapsed_s) {
  parts_.train->seek(position_.data);
}

double Trainer::epoch() const {
  const LoaderState& state = position_.data;
  const auto steps = static_cast<double>(parts_.train->num_steps(state.epoch));
  return static_cast<double>(state.epoch) + static_cast<double>(state.step_in_epoch) / steps;
}

double Trainer::elapsed_s() const { return elapsed_before_s_ + stopwatch_.seconds(); }

bool Trainer::is_due(RunStrategy strategy, const StepInterval& interval) const {
  switch (strategy) {
    case RunStrategy::kNo:
      return false;
    case RunStrategy::kSteps:
      return position_.step % interval.resolve(total_steps_) == 0;
    case RunStrategy::kEpoch:
      return position_.data.step_in_epoch == 0 || position_.step == total_steps_;
  }
  return false;
}

StepReport Trainer::run_step() {
  const Stopwatch stopwatch(*parts_.clock);
  const TrainingStep data = parts_.train->next();
  const std::vector<PackedDocuments> batches = documents_of(data);
  RunPosition after = position_;
  after.step = position_.step + 1;
  after.elapsed_s = elapsed_s();
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
  // The state is that of the step before: keep it.
  const auto refuse = [&](const InvalidInput& error, const std::string& advice) {
    if (position_.step > 0) parts_.session->commit(position_.to_note());
    throw InvalidInput(fmt::format("step {}: {}{}", after.step, error.what(), advice));
  };
  try {
    done = parts_.session->step(batches, settings, after.to_note());
  } catch (const NotFinite& error) {
    refuse(error, "; " + how_to_go_back());
  } catch (const InvalidInput& error) {
    refuse(error, "");
  }
  position_ = after;
  return {.step = position_.step,
          .total_steps = total_steps_,
          .epoch = epoch(),
          .loss = done.result.loss,
          .grad_norm = done.grad_norm,
          .learning_rate = rate,
          .num_tokens = done.result.num_tokens,
          .seconds = stopwatch.seconds(),
          .elapsed_s = elapsed_s()};
}

double Trainer::evaluate(const ProgressSink& progress) {
  BatchLoader& loader = *parts_.held_out;
  loader.seek({});
  double total = 0;
  std::int64_t num_labels = 0;
  const std::uint64_t num_steps = loader.num_steps(0);
  for (std::uint64_t idx = 0; idx < num_steps; ++idx) {
    progress.report({.what = "evaluating", .done = idx, .total = num_steps, .unit = ProgressUnit::kSteps});
    const TrainingStep data = loader.next();
    const StepResult result = parts_.session->evaluate(documents_of(data));
    total += result.loss * static_cast<double>(result.num_labels);
    num_labels += result.num_labels;
  }
  progress.report({.what = "evaluating", .done = num_steps, .total = num_steps, .unit = ProgressUnit::kSteps});
  return total / static_cast<double>(num_labels);
}

void Trainer::evaluate_and_judge(const TrainObserver& observer, const ProgressSink& progress) {
  const double loss = evaluate(progress);
  parts_.log->log(EvaluationEntry{.loss = loss});
  if (position_.judge(loss)) {
    parts_.log->set_best(loss, parts_.folder->path(RunFolder::checkpoint_name(position_.step)));
  }
  if (parts_.session->commits_every_step()) parts_.session->commit(position_.to_note());
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
  drop_old_checkpoints();
  committed_ns_ = parts_.clock->now_ns();
  if (parts_.commit_every_s > 0) observer.on_commit(position_.step, parts_.commit_every_s);
  parts_.log->save();
  observer.on_saved(parts_.folder->path(name));
  if (position_.step < total_steps_) session.reserve_space();  // the checkpoint has taken what steps were to use
}

void Trainer::commit_if_due(const TrainObserver& observer) {
  TrainingSession& session = *parts_.session;
  if (parts_.commit_every_s <= 0 || session.commits_every_step()) return;
  const double since_s = static_cast<double>(parts_.clock->now_ns() - committed_ns_) * 1e-9;
  if (since_s < parts_.commit_every_s) return;
  session.commit(position_.to_note());
  committed_ns_ = parts_.clock->now_ns();
  observer.on_commit(position_.step, parts_.commit_every_s);
  session.reserve_space();  // for the next commit
}

// As Hugging Face's Trainer: the newest stay, and the best counts as the second newest. Where one alone may stay, the
// best stays beside it, since the run goes on from the newest.
void Trainer::drop_old_checkpoints() {
  if (!config_.save_total_limit) return;
  std::vector<std::uint64_t> steps = parts_.folder->checkpoints();
  std::uint64_t limit = std::max<std::uint64_t>(*config_.save_total_limit, 1);
  if (config_.load_best_model_at_end && position_.best_loss) {
    const auto best = std::find(steps.begin(), steps.end(), position_.best_step);
    if (best != steps.end() && best + 1 != steps.end()) {
      std::rotate(best, best + 1, steps.end() - 1);
      limit = std::max<std::uint64_t>(limit, 2);
    }
  }
  for (std::size_t idx = 0; idx + limit < steps.size(); ++idx) {
    parts_.session->drop_snapshot(RunFolder::checkpoint_name(steps[idx]));
    parts_.folder->remove_checkpoint(steps[idx]);
  }
}

bool Trainer::is_saved() const {
  const std::vector<std::uint64_t> steps = parts_.folder->checkpoints();
  return std::find(steps.begin(), steps.end(), position_.step) != steps.end() &&
         parts_.session->has_snapshot(RunFolder::checkpoint_name(position_.step));
}

RunEnd Trainer::end_step(const TrainObserver& observer, const ProgressSink& progress) {
  RunEnd end = RunEnd::kFinished;
  const bool is_last = position_.step == total_steps_;
  if (parts_.held_out != nullptr && (is_due(config_.eval_strategy, config_.eval_steps) || is_last)) {
    if (position_.evaluated_step != position_.step) evaluate_and_judge(observer, progress);
    if (config_.early_stopping_patience && position_.evaluations_since_best >= *config_.early_stopping_patience) {
      end = RunEnd::kEarlyStop;
    }
  }
  const bool interrupted = progress.interrupted();
  if (interrupted && !is_last) end = RunEnd::kInterrupted;
  if (is_due(config_.save_strategy, config_.save_steps) && !interrupted && !is_saved()) save(observer);
  if (end == RunEnd::kFinished && !is_last) commit_if_due(observer);
  return end;
}

RunSummary Trainer::run(const TrainObserver& observer, const ProgressSink& progress) {
  try {
    return run_steps(observer, progress);
  } catch (const IoError& failure) {
    keep_last_step();
    throw IoError(failure.errno_value(),
                  how_to_go_on(failure.errno_value() == ENOSPC ? what_is_full(failure) : failure.what()));
  } catch (const DeviceError& failure) {  // a card that is lost, among others
    keep_last_step();
    throw DeviceError(how_to_go_on(failure.what()));
  }
}

// Where what failed lets it.
void Trainer::keep_last_step() {
  try {
    parts_.session->commit(position_.to_note());
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // What failed is what is told; the last commit stands.
  }
}

std::string Trainer::what_is_full(const IoError& failure) const {
  const TrainingSession& session = *parts_.session;
  const std::vector<std::uint64_t> missing = session.missing_bytes();
  const std::vector<std::string> directories = session.store().directories();
  for (std::size_t idx = 0; idx < missing.size(); ++idx) {
    const std::string& directory = directories[idx];
    const bool is_it = std::string_view(failure.what()).find(directory) != std::string_view::npos;
    if (missing[idx] == 0 || !is_it) continue;
    return fmt::format(
        "the drive of '{}' is full: free {} there for the run to go on to its end, up to {} of it for each checkpoint "
        "that is kept (save_total_limit)",
        directory, format_bytes(missing[idx]), format_bytes(session.state_bytes()));
  }
  return failure.what();
}

std::string Trainer::how_to_go_on(const std::string& text) const {
  const TrainingSession& session = *parts_.session;
  const std::optional<std::string> note = session.committed_note();
  const std::uint64_t step = note ? RunPosition::from_note(*note).step : 0;
  return fmt::format("after step {}: {}; everything up to step {} is kept, and 'sluice resume {}' goes on from there",
                     position_.step, text, step, config_.output_dir);
}

std::string Trainer::how_to_go_back() const {
  if (position_.step == 0) {
    return "no step was done, so it is not the learning rate: look at base_model, or try dtype=fp32";
  }
  // The step that was done last made the weights that fail: of those before it the newest is the one to go back to.
  std::optional<std::uint64_t> good;
  for (const std::uint64_t step : parts_.folder->checkpoints()) {
    if (step < position_.step && parts_.session->has_snapshot(RunFolder::checkpoint_name(step))) good = step;
  }
  if (!good) {
    return fmt::format(
        "everything up to step {} is kept, but no checkpoint is older: start again with a lower learning_rate and "
        "overwrite_output_dir=true",
        position_.step);
  }
  return fmt::format(
      "everything up to step {} is kept; go back and learn more slowly: 'sluice resume {} --from {} "
      "learning_rate={:.3g}'",
      position_.step, config_.output_dir, RunFolder::checkpoint_name(*good), config_.learning_rate / 10);
}

RunSummary Trainer::run_steps(const TrainObserver& observer, const ProgressSink& progress) {
  const Stopwatch stopwatch(*parts_.clock);
  RunSummary summary;
  const std::uint64_t first_step = position_.step;
  double loss_sum = 0;
  double later_seconds = 0;
  committed_ns_ = parts_.clock->now_ns();
  if (position_.step > 0) summary.end = end_step(observer, progress);
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
    summary.end = end_step(observer, progress);
  }
  parts_.session->commit(position_.to_note());
  parts_.log->save();
  const std::uint64_t num_steps = position_.step - first_step;
  summary.steps = position_.step;
  summary.total_tokens = position_.total_tokens;
  summary.seconds = stopwatch.seconds();
  summary.elapsed_s = elapsed_s();
  summary.best_loss = position_.best_loss;
  if (num_steps > 0) summary.loss = loss_sum / static_cast<double>(num_steps);
  if (num_steps > 1) summary.step_seconds = later_seconds / static_cast<double>(num_steps - 1);
  if (summary.end != RunEnd::kInterrupted) save_model(observer, progress);
  return summary;
}

void Trainer::save_model(const TrainObserver& observer, const ProgressSink& progress) {
  TrainingSession& session = *parts_.session;
  const std::string best_name = RunFolder::checkpoint_name(position_.best_step);
  const bool wanted = config_.load_best_model_at_end && position_.best_loss && position_.best_step != position_.step;
  const bool best = wanted && session.has_snapshot(best_name);
  if (wanted && !best) {
    log_warning(
        fmt::format("load_best_model_at_end: there is no {}, where the held-out loss was lowest; the result is "
                    "that of step {}",
                    best_name, position_.step));
  }
  parts_.folder->save_model(
      [&](std::size_t slice_idx) {
        return best ? session.weights_in(best_name, slice_idx) : session.weights(slice_idx);
      },
      progress);
  observer.on_saved(parts_.folder->path(""));
}

}  // namespace sluice
