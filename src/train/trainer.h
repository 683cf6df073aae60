// SPDX-License-Identifier: Apache-2.0
// The loop of a run: steps, learning rate, evaluation, checkpoints, logs. Everything that decides the next step is in
// the note of the last commit (RunPosition), so a run goes on from there to the same bits. For one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/progress.h"
#include "data/batch_loader.h"
#include "train/run_folder.h"
#include "train/run_log.h"
#include "train/train_config.h"
#include "train/training_session.h"

namespace sluice {

// Where a run is; the note of a commit.
struct RunPosition {
  std::uint64_t step = 0;  // done
  LoaderState data;        // what comes next
  std::uint64_t total_tokens = 0;
  std::optional<double> best_loss;  // of evaluations
  std::uint64_t best_step = 0;
  std::uint64_t evaluations_since_best = 0;
  std::uint64_t evaluated_step = 0;  // the last that was
  double elapsed_s = 0;              // training time over all sessions, when the step began

  // Takes the held-out loss of this step; whether it is the best so far. One that is not finite never is.
  bool judge(double loss);

  std::string to_note() const;
  // Throws FormatError where the note is not one of these.
  static RunPosition from_note(const std::string& note);
  friend bool operator==(const RunPosition&, const RunPosition&) = default;
};

struct StepReport {
  std::uint64_t step = 0;
  std::uint64_t total_steps = 0;
  double epoch = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  std::int64_t num_tokens = 0;
  double seconds = 0;
  double elapsed_s = 0;  // over all sessions of the run
};

// Who watches; called from the loop.
struct TrainObserver {
  std::function<void(const StepReport&)> on_step = [](const StepReport&) {};
  std::function<void(std::uint64_t step, double loss)> on_evaluation = [](std::uint64_t, double) {};
  std::function<void(const std::string& what)> on_saved = [](const std::string&) {};
  // A timed commit was written; the next is due in `next_in_s`.
  std::function<void(std::uint64_t step, double next_in_s)> on_commit = [](std::uint64_t, double) {};
};

enum class RunEnd : std::uint8_t { kFinished, kEarlyStop, kInterrupted };

struct RunSummary {
  RunEnd end = RunEnd::kFinished;
  std::uint64_t steps = 0;
  std::uint64_t total_tokens = 0;
  double seconds = 0;       // of this process
  double elapsed_s = 0;     // over all sessions of the run
  double step_seconds = 0;  // mean of its steps but the first
  double loss = 0;          // mean over its steps
  std::optional<double> best_loss;
};

class Trainer {
 public:
  struct Parts {
    const TrainConfig* config = nullptr;
    TrainingSession* session = nullptr;
    BatchLoader* train = nullptr;
    BatchLoader* held_out = nullptr;  // null: no evaluation
    RunFolder* folder = nullptr;
    RunLog* log = nullptr;
    const Clock* clock = nullptr;
    double commit_every_s = 0;  // interval of timed commits; 0: only with checkpoints and at the end
  };
  // `position`: where the session is.
  Trainer(Parts parts, RunPosition position, std::uint64_t total_steps);

  // Until the end, or until `interrupted` is seen after a step; then the step is committed. Evaluations and checkpoints
  // that were due when the run was stopped come first. Whatever fails, the last step that was done is kept if that can
  // be, and the message says which is and how to go on.
  RunSummary run(const TrainObserver& observer, const ProgressSink& progress);

  // Of a whole run: max_steps, or what its epochs have.
  static std::uint64_t count_steps(const TrainConfig& config, BatchLoader& loader,
                                   const std::function<bool()>& interrupted = {});

 private:
  RunSummary run_steps(const TrainObserver& observer, const ProgressSink& progress);
  StepReport run_step();
  // What is due after a step. Returns how the run ends here, kFinished: it does not.
  RunEnd end_step(const TrainObserver& observer, const ProgressSink& progress);
  double evaluate(const ProgressSink& progress);
  void evaluate_and_judge(const TrainObserver& observer, const ProgressSink& progress);
  bool is_saved() const;
  void save(const TrainObserver& observer);
  void commit_if_due(const TrainObserver& observer);
  void drop_old_checkpoints();
  void save_model(const TrainObserver& observer, const ProgressSink& progress);
  void keep_last_step();
  std::string what_is_full(const IoError& failure) const;
  std::string how_to_go_on(const std::string& text) const;
  std::string how_to_go_back() const;
  double epoch() const;
  double elapsed_s() const;
  bool is_due(RunStrategy strategy, const StepInterval& interval) const;

  Parts parts_;
  const TrainConfig& config_;
  RunPosition position_;
  std::uint64_t total_steps_;
  LrSchedule schedule_;
  std::int64_t committed_ns_ = 0;  // time of the last commit, or of the start
  Stopwatch stopwatch_;
  double elapsed_before_s_;  // of earlier sessions
};

}  // namespace sluice
