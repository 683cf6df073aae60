// SPDX-License-Identifier: Apache-2.0
// The end of the model in a step: the final norm and the head, range by range of the vocabulary, for all micro-batches
// of a wave. Owns the losses and what ranges leave for one another. For one thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "model/model_ends.h"
#include "plan/schedule.h"
#include "train/boundary_places.h"
#include "train/gradient_places.h"
#include "train/step_wave.h"
#include "train/weight_places.h"

namespace sluice {

struct LossHeadParts {
  Device* device = nullptr;
  Stream* stream = nullptr;
  const Architecture* arch = nullptr;
  const Schedule* schedule = nullptr;
  WeightPlaces* weights = nullptr;
  GradientPlaces* gradients = nullptr;
  BoundaryPlaces* boundaries = nullptr;
  std::span<std::byte> workspace;  // of the device
};

class LossHead {
 public:
  // What is given outlives this.
  explicit LossHead(const LossHeadParts& parts);

  // Takes the last block's outputs. Where the wave is to learn from, their gradients lie in their place afterwards, and
  // those of norm and head are summed; of a tied head they are left for what the tokens add.
  void run(const StepWave& wave);

  // What run() found, of every token of the wave in order; waits for the stream.
  std::vector<float> losses(const StepWave& wave);

 private:
  // The final norm's slice.
  struct Norm {
    std::span<std::byte> weights;
    std::span<std::byte> gradients;  // empty: not wanted
  };

  void run_at_once(const StepWave& wave, const Norm& norm);
  void run_by_ranges(const StepWave& wave, const Norm& norm);
  void end_gradients(std::size_t rows_idx, const std::string& key);
  EndPass pass(const StepWave::Member& member) const;
  TensorView take(const StepWave::Member& member);
  TensorView losses_of(const StepWave::Member& member);
  Workspace workspace() const { return Workspace(with_.workspace); }

  LossHeadParts with_;
  const Architecture& arch_;
  std::vector<Buffer> state_;   // of each micro-batch of the wave
  std::vector<Buffer> losses_;  // of each micro-batch of the wave
  Buffer host_losses_;          // pinned, of one
};

}  // namespace sluice
