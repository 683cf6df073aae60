// SPDX-License-Identifier: Apache-2.0
// A model in training: device, host memory and drives as its schedule has them, and the store that survives it. Steps
// follow one another while the optimizer of the last still runs. What is committed is whole: weights, optimizer state
// and the caller's note, of one step. Where all that is durable lives on the drives every step is committed as it is
// done; else commit() writes what lives in memory first. For one thread.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/page_memory.h"
#include "base/progress.h"
#include "device/choose_device.h"
#include "io/choose_engine.h"
#include "io/posix/posix_file.h"
#include "model/checkpoint_slices.h"
#include "model/description.h"
#include "plan/step_memory.h"
#include "tier/run_keeper.h"
#include "train/optimizer_lane.h"
#include "train/step_runner.h"
#include "train/training_state.h"

namespace sluice {

struct SessionOptions {
  const ModelDescription* model = nullptr;
  Schedule schedule;
  StepBuffers buffers;
  std::uint64_t device_bytes = 0;
  std::uint64_t host_bytes = 0;
  DeviceChoice device;                         // of the kind that the schedule is for
  std::vector<std::string> store_directories;  // one a drive; they exist
  std::size_t num_threads = 1;
  double momentum = 0;         // of SGD; 0 exactly where the schedule's optimizer has none
  std::uint64_t seed = 0;      // of adapters, of what dropout leaves out and of what is rounded stochastically
  LaneTrace* trace = nullptr;  // may be null
  DirectWish direct_storage = DirectWish::kOff;
};

// How a step's gradients become new weights.
struct UpdateSettings {
  AdamWSettings adam;        // grad_scale follows from the clip; SGD has its rate and decay from here
  double max_grad_norm = 0;  // 0: no clip
};

// Loss or gradients of a step are not finite numbers; says which slice they come from.
class NotFinite : public InvalidInput {
 public:
  using InvalidInput::InvalidInput;
};

struct SessionStep {
  StepResult result;
  double grad_norm = 0;  // before the clip
};

struct TierUse {
  std::uint64_t used_bytes = 0;
  std::uint64_t peak_bytes = 0;
};
struct SessionUse {
  TierUse device, host, drives;
};

class TrainingSession {
 public:
  // Opens the store in the directories, or makes one. Throws OutOfBudget; InvalidInput where it is another model's.
  explicit TrainingSession(const SessionOptions& options);
  ~TrainingSession();

  // The note of the last commit; nothing: begin().
  std::optional<std::string> committed_note() const;
  // Both throw IoError where the drives have no room for the run. begin() forgets what was committed; resume() throws
  // InvalidInput where that is the state of another model.
  void begin(const CheckpointSlices& checkpoint, const std::string& note, const ProgressSink& progress);
  // The checkpoint is the one the run began with: weights that no commit has come from there.
  void resume(const CheckpointSlices& checkpoint);
  // Before resume(): the last commit is that of a snapshot again, the snapshots `dropped` are gone.
  void go_back(const std::string& snapshot, const std::vector<std::string>& dropped);

  // Forward, backward, and the start of the update. `note` is what the step's commit will say. Throws NotFinite, with
  // nothing updated; what the last step's update and its commit have thrown.
  SessionStep step(std::span<const PackedDocuments> micro_batches, const UpdateSettings& settings,
                   const std::string& note);
  StepResult evaluate(std::span<const PackedDocuments> micro_batches);
  // Until the last update is through. Throws what it has thrown.
  void wait();

  // Durable on return: everything as the last step left it. A note stands for one state: where the last commit has it,
  // nothing is written.
  void commit(const std::string& note);
  // Whether steps are committed as they are done, so that a commit costs next to nothing.
  bool commits_every_step() const { return commits_every_step_; }
  // Snapshots of the last commit; one of the same name is replaced, one that is not there is no matter.
  void keep_snapshot(const std::string& name);
  void drop_snapshot(const std::string& name);
  bool has_snapshot(const std::string& name) const;
  std::vector<std::string> snapshots() const;

  // Sets room on the drives aside for the steps up to the next commit beside what is kept, so that a drive that will be
  // full shows while everything is committed. Throws IoError.
  void reserve_space();
  // For each store directory, what must be freed on its drive for the run to go on to its end from its last commit.
  std::vector<std::uint64_t> missing_bytes() const;
  std::uint64_t state_bytes() const;  // of a commit, on all drives together

  // What is trained of a slice, after wait(); good until the next call. Empty where nothing is.
  std::span<const std::byte> weights(std::size_t slice_idx);
  std::span<const std::byte> weights_in(const std::string& snapshot, std::size_t slice_idx);

  // Of each tier, as it is now.
  SessionUse use() const;

  Device& device() { return *device_; }
  const Budget& host() const { return host_; }
  const SliceStore& store() const { return *store_; }

 private:
  std::unique_ptr<DirectReader> choose_direct();
  WeightKeeping weight_keeping();
  std::span<std::byte> memory_for(std::size_t slice_idx);
  void require_finite(const StepResult& result, double norm, std::span<const PackedDocuments> micro_batches);
  std::string why_not_finite(std::span<const PackedDocuments> micro_batches);
  [[noreturn]] void refuse_other_model() const;
  void require_same_model() const;
  void require_same_state() const;
  // What the run takes on the drives beside what is kept, up to its next commit.
  std::uint64_t more_bytes() const;

  SessionOptions options_;
  const Architecture& arch_;
  bool commits_every_step_ = false;
  PosixFileSystem files_;
  EngineChoice choice_;
  std::unique_ptr<Device> device_;
  Budget host_;
  std::unique_ptr<SliceStore> store_;
  StagingRing ring_;
  std::unique_ptr<DirectReader> direct_;  // null: slices go through the host
  RunKeeper keeper_;
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<OptimizerLane> optimizer_;
  std::vector<std::shared_future<void>> ready_;
  PageMemory slice_memory_;
};

}  // namespace sluice
