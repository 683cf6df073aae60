// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/attention.h. Arguments were checked.
#pragma once

#include <cstdint>

#include "base/worker_team.h"
#include "ops/attention.h"

namespace sluice::cpu {

void attention_forward(WorkerTeam& team, const AttentionForward& args);
void attention_backward(WorkerTeam& team, const AttentionBackward& args);

}  // namespace sluice::cpu
