// SPDX-License-Identifier: Apache-2.0
// Weights for a model that nobody has trained, written as a checkpoint piece by piece, or matrix by matrix where they
// are packed: matrices near normal with the config's spread, norms that do nothing, biases of zero. The same seed gives
// the same bytes for any number of threads.
#pragma once

#include <cstdint>
#include <string>

#include "base/progress.h"
#include "base/worker_team.h"
#include "format/checkpoint_writer.h"
#include "model/description.h"

namespace sluice {

struct RandomWeights {
  std::uint64_t seed = 0;
  double spread = 0.02;  // standard deviation
  DType dtype = DType::kBF16;
};

// `writer` was made for plan_tensors(model, dtype). Throws Cancelled where the progress sink was interrupted.
void write_random_weights(CheckpointWriter& writer, const ModelDescription& model, const RandomWeights& weights,
                          WorkerTeam& team, const ProgressSink& progress);

}  // namespace sluice
