// SPDX-License-Identifier: Apache-2.0
// Forward and backward of one step: its micro-batches go through the model in waves, each wave through a group of
// slices before the next group is touched. Weights, gradients and boundaries come and go as the schedule says. Owns the
// device's activations; every allocation is made at the start. For one thread; returns when gradients are home.
//
//   host->device   w0  w1  w2  w3  …                        w2        w1        w0
//   compute        g0 b0 b1 | g1 b0 b1 | … | head b0 b1 | … g1 b0 b1 | g0 b0 b1          b: micro-batches of the wave
//   device->host       x0        x1     …                        dg1        dg0          x: boundaries, dg: gradients
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "model/batch.h"
#include "model/block.h"
#include "model/model_ends.h"
#include "plan/schedule.h"
#include "tier/run_keeper.h"
#include "train/boundary_places.h"
#include "train/gradient_places.h"
#include "train/loss_head.h"
#include "train/step_wave.h"
#include "train/weight_places.h"

namespace sluice {

// Documents that are computed together.
using PackedDocuments = std::vector<DocumentTokens>;

struct StepResult {
  double loss = 0;  // mean over all labels of the step
  std::int64_t num_labels = 0;
  std::int64_t num_tokens = 0;
  double squared_norm = 0;     // of all gradients
  std::vector<float> squares;  // of each slice's
};

class StepRunner {
 public:
  // Adds boundaries and gradients to the keeper; weights are there. What is given outlives this.
  StepRunner(Device& device, const Architecture& arch, RunKeeper& keeper, const Schedule& schedule, LaneTrace* trace);
  ~StepRunner();

  // `ready`: for each slice, when what is trained of it is that of this step; invalid futures: it is. `dropout_seed`:
  // another for every step. Throws InvalidInput where no token has a label.
  StepResult run(std::span<const PackedDocuments> micro_batches, const std::vector<std::shared_future<void>>& ready,
                 std::uint64_t dropout_seed = 0);
  // The mean loss alone, over all labels.
  StepResult evaluate(std::span<const PackedDocuments> micro_batches,
                      const std::vector<std::shared_future<void>>& ready);
  // The first slice on the way to the loss whose output holds a number that is not finite; nothing: all are, up to the
  // head. Slow: for a step that has gone wrong.
  std::optional<std::size_t> find_not_finite(std::span<const PackedDocuments> micro_batches,
                                             const std::vector<std::shared_future<void>>& ready);

 private:
  StepResult go(std::span<const PackedDocuments> micro_batches, const std::vector<std::shared_future<void>>& ready,
                StepAim aim);
  void begin_wave(std::span<const PackedDocuments> micro_batches);
  void forward();
  void follow_boundaries();
  void backward();
  void embedding_backward();
  void embedding_gradients();
  void watch(std::size_t slice_idx, const TensorView& output);

  // What the stream computes from here on, for the trace; empty: nothing.
  void label(const std::string& text);
  // The adapter of a block is that of this step from here on.
  void await_adapter(std::size_t slice_idx);
  // A block of the group under way, ready to be computed with.
  std::span<std::byte> use_block(std::int64_t layer_idx, std::size_t idx_in_group);
  BlockPass block_pass(const StepWave::Member& member, std::int64_t layer_idx, std::span<std::byte> weights);
  // Where a block's forward leaves its intermediates for its backward; empty: nowhere.
  std::span<std::byte> stored(const StepWave::Member& member, std::int64_t layer_idx) const;
  EndPass end_pass(const StepWave::Member& member) const;
  Workspace workspace() const { return Workspace(workspace_.bytes()); }

  Device& device_;
  const Architecture& arch_;
  RunKeeper& keeper_;
  Schedule schedule_;
  std::optional<StreamTrace> trace_;  // of the stream below
  std::unique_ptr<Stream> stream_;    // compute
  std::unique_ptr<Stream> batch_stream_;
  RopeRows rope_rows_;
  WeightPlaces weights_;
  GradientPlaces gradients_;
  BoundaryPlaces boundaries_;
  Buffer workspace_;
  std::vector<Buffer> stored_;  // intermediates of the last layers, of each micro-batch of a wave
  LossHead head_;
  std::vector<Buffer> unpacked_;  // for each block of a group, where blocks are kept packed

  // Of the step and the wave under way.
  StepWave wave_;
  std::vector<std::shared_future<void>> adapters_ready_;  // one a slice, where adapters are trained
  std::uint64_t dropout_seed_ = 0;
  bool is_watching_ = false;  // find_not_finite()
  std::optional<std::size_t> not_finite_;
};

}  // namespace sluice
