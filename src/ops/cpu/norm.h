// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/norm.h. num_runs is given, never 0.
#pragma once

#include "base/worker_team.h"
#include "ops/norm.h"

namespace sluice::cpu {

void norm_forward(WorkerTeam& team, const NormForward& args);
void norm_backward(WorkerTeam& team, const NormBackward& args);

}  // namespace sluice::cpu
