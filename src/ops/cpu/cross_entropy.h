// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/cross_entropy.h.
#pragma once

#include "base/worker_team.h"
#include "ops/cross_entropy.h"

namespace sluice::cpu {

// Throws InvalidInput, before anything is changed, where a label is neither in the vocabulary nor kIgnoreLabel.
void cross_entropy(WorkerTeam& team, const CrossEntropy& args);
void soft_cap(WorkerTeam& team, const TensorView& values, float cap);

}  // namespace sluice::cpu
