// SPDX-License-Identifier: Apache-2.0
// A run from its configuration to its output folder: model, text, data, memory, loop. Made in two parts, so that a plan
// can be shown between them: the job knows what is to be trained, then it is told how. Owns everything that the run
// needs. For one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/progress.h"
#include "data/batch_loader.h"
#include "data/held_out.h"
#include "data/model_text.h"
#include "data/prepared_data.h"
#include "format/checkpoint.h"
#include "train/resumed_run.h"
#include "train/run_folder.h"
#include "train/run_log.h"
#include "train/run_manifest.h"
#include "train/train_config.h"
#include "train/trainer.h"
#include "train/training_session.h"

namespace sluice {

enum class JobStart : std::uint8_t { kNew, kResume };

// A run that goes on from one of its checkpoints, and what it gives up for that.
struct GoingBack {
  std::uint64_t from_step = 0;
  std::uint64_t to_step = 0;
  std::vector<std::string> dropped;  // checkpoints that came later
};

// How the job is to use the machine.
struct JobMemory {
  Schedule schedule;
  StepBuffers buffers;
  std::uint64_t device_bytes = 0;
  std::uint64_t host_bytes = 0;
  DeviceChoice device;
  std::size_t num_threads = 1;
  LaneTrace* trace = nullptr;  // may be null
  double commit_every_s = 0;   // by time; 0: no such commits
};

class TrainingJob {
 public:
  // Reads the model's description and prepares its data. Throws InvalidInput for what cannot be: no data, bad rows, a
  // folder that holds another run, an adapter on what the model does not have.
  TrainingJob(const TrainConfig& config, JobStart start, BadRows bad_rows, const ProgressSink& progress,
              ChangedInputs changed = ChangedInputs::kRefuse);
  ~TrainingJob();

  const TrainConfig& config() const { return config_; }
  const ModelDescription& model() const { return model_; }
  const RowCounts& row_counts() const { return train_data_->counts(); }
  double packing_fill() { return train_->fill(0); }
  std::uint64_t num_train_examples() const { return split_.train.size(); }
  std::uint64_t num_held_out_examples() const;
  std::uint64_t total_steps() const { return total_steps_; }
  // Before open(): those that the run will keep, and has kept where it goes on.
  RunCheckpoints checkpoints() const;
  const std::vector<std::string>& store_directories() const { return store_directories_; }

  // Before open(), for a run that is resumed: go on from the checkpoint of this step. What came later is dropped in
  // open(), after `announce` was told; it throws InvalidInput where there is no such checkpoint.
  void go_back_to(std::uint64_t step, std::function<void(const GoingBack&)> announce);

  // Takes the memory and the store; weights are there on return. `plan_json` is kept beside the run.
  void open(const JobMemory& memory, const std::string& plan_json, const ProgressSink& progress);
  const RunPosition& position() const { return position_; }  // after open()
  TrainingSession& session() { return *session_; }
  const TrainingSession& session() const { return *session_; }

  RunSummary run(const TrainObserver& observer, const ProgressSink& progress);

  // The step of `checkpoint`, a name such as checkpoint-4 or its folder. Throws InvalidInput where it is not a
  // checkpoint's name, or the folder is not of the run in `run_dir`.
  static std::uint64_t step_of_checkpoint(const std::string& run_dir, const std::string& checkpoint);
  // Before a file is created in the run's folder, its name there. Throws InvalidInput where another file has it.
  void claim(const std::string& name) { manifest_->claim(name); }

  // Whether a run has begun in this folder.
  static bool holds_run(const std::string& run_dir);
  // Where the state of the run in output_dir is, one a drive; none where there is no run yet.
  static std::vector<std::string> store_directories_of(const TrainConfig& config);
  // The configuration that a run folder was made with, and what is to change.
  static TrainConfig config_of(const std::string& run_dir, const std::vector<std::string>& overrides = {},
                               const HomeOf& home_of = {});

 private:
  PreparedData prepare(const std::vector<DatasetChoice>& datasets, const std::string& name,
                       const ProgressSink& progress);
  // Takes output_dir for this process and finds out which run is in it.
  void take_folder(const ProgressSink& progress, ChangedInputs changed);
  void begin_record(const ProgressSink& progress);
  void restore_checkpoint();
  // Removes leftovers of a crash: snapshots without a folder, folders of steps that were given up.
  void drop_strays();
  // After a rollback, a best checkpoint that was dropped since cannot be the result.
  void forget_lost_best();
  void require_state() const;
  void open_log();

  TrainConfig config_;
  JobStart start_;
  BadRows bad_rows_;
  mutable PosixFileSystem files_;  // it has no state
  std::unique_ptr<IoEngine> engine_;
  SteadyClock clock_;
  std::unique_ptr<Clock> wall_clock_;
  ModelDescription model_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<CheckpointSlices> slices_;
  ModelText text_;
  std::int64_t started_unix_s_ = 0;
  std::optional<PreparedData> train_data_, held_out_data_;
  ExampleSplit split_;
  std::unique_ptr<BatchLoader> train_, held_out_;
  std::uint64_t total_steps_ = 0;
  std::vector<std::string> store_directories_;
  RunRecord next_record_;  // of a new run, until it is the folder's
  std::unique_ptr<RunManifest> manifest_;
  std::unique_ptr<RunFolder> folder_;
  std::optional<std::uint64_t> return_step_;
  std::function<void(const GoingBack&)> announce_return_;
  std::unique_ptr<TrainingSession> session_;
  double commit_every_s_ = 0;
  RunPosition position_;
  std::unique_ptr<RunLog> log_;
};

}  // namespace sluice
