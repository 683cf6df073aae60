// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/cross_entropy.h.
#pragma once

#include "base/worker_team.h"
#include "ops/cross_entropy.h"

namespace sluice::cpu {

// A token's, as they lie in memory.
struct Statistics {
  float largest;
  float label;  // its capped logit, once its range was there
  double sum;   // of exp(capped logit - largest)
};
static_assert(sizeof(Statistics) == kSoftmaxStatistics * sizeof(float));

// Throws InvalidInput, before anything is changed, where a label is neither in the vocabulary nor kIgnoreLabel.
void cross_entropy(WorkerTeam& team, const CrossEntropy& args);
void softmax_statistics(WorkerTeam& team, const SoftmaxRange& args);
void losses_of_statistics(WorkerTeam& team, const TensorView& statistics, const TensorView& labels,
                          const TensorView& losses);
void softmax_gradient(WorkerTeam& team, const SoftmaxGradient& args);
void soft_cap(WorkerTeam& team, const TensorView& values, float cap);

}  // namespace sluice::cpu
