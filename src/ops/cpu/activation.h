// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/activation.h.
#pragma once

#include "base/worker_team.h"
#include "ops/activation.h"

namespace sluice::cpu {

void activation_forward(WorkerTeam& team, const ActivationForward& args);
void activation_backward(WorkerTeam& team, const ActivationBackward& args);

}  // namespace sluice::cpu
