// SPDX-License-Identifier: Apache-2.0
// A training run's logs under output_dir, in the formats of existing tools:
//
//   trainer_log.jsonl                     a line an entry, in LLaMA-Factory's fields
//   trainer_state.json                    Hugging Face's; written by save()
//   runs/<name>/events.out.tfevents.*     TensorBoard's
//   loss_curve.svg                        a picture; written by save()
//
// A resumed run drops the entries after the step that it resumes from, and appends. Write errors after opening (a full
// drive) are warned about once per file and training goes on; later entries are tried again. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "io/file.h"
#include "io/io_engine.h"
#include "train/append_file.h"
#include "train/event_record.h"
#include "train/trainer_state.h"

namespace sluice {

// Plain-text log of the messages to the user; written by the command line.
inline constexpr std::string_view kTrainLogName = "train.log";

struct RunLogPlace {
  FileSystem& files;
  IoEngine& engine;
  const Clock& clock;       // for durations
  const Clock& wall_clock;  // since 1970
  std::string output_dir;   // made if absent
  std::string run_name;     // of the folder under runs/ and of the picture; a resumed run keeps it
  double elapsed_s = 0;     // training time before this process
  // Called with a file's path in output_dir before the file is created.
  std::function<void(const std::string& name)> claim = [](const std::string&) {};
};

struct RunProgress {
  std::uint64_t step = 0;  // optimizer steps done
  double epoch = 0;
  std::uint64_t total_tokens = 0;  // since the run began, resumed or not
};

struct TrainingEntry {
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
};

struct EvaluationEntry {
  double loss = 0;
};

class RunLog {
 public:
  // A new run: replaces what an earlier one left in trainer_log.jsonl. Of `state`, what does not change is used.
  RunLog(RunLogPlace place, TrainerState state);
  // A run that goes on after `state.global_step`, with the state that read_trainer_state() gave for its checkpoint.
  static RunLog resume(RunLogPlace place, TrainerState state);

  // After every step, logged or not: what save() and save_state() say of the run.
  void reach(const RunProgress& progress);
  // About the step reached last.
  void log(const TrainingEntry& entry);
  void log(const EvaluationEntry& entry);
  void set_best(double metric, const std::string& checkpoint);

  const TrainerState& state() const { return state_; }
  // Writes trainer_state.json into a checkpoint folder. Throws IoError if it cannot be written.
  void save_state(const std::string& folder) const;
  // trainer_state.json and loss_curve.svg of the output folder.
  void save() const;

 private:
  enum class Start { kNew, kResumed };
  RunLog(RunLogPlace place, TrainerState state, Start start);

  void append_line(const HistoryEntry& entry);
  // Calls write(); warns about its IoError, once per name.
  void attempt(std::string_view name, const std::function<void()>& write) const;
  EventTime now() const;

  RunLogPlace place_;
  TrainerState state_;
  Stopwatch stopwatch_;
  std::uint64_t first_step_;  // where this process began
  std::uint64_t first_tokens_;
  AppendFile log_file_;
  AppendFile event_file_;
  mutable std::set<std::string, std::less<>> lost_;  // names already warned about
};

}  // namespace sluice
