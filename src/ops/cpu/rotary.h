// SPDX-License-Identifier: Apache-2.0
// Kernel of ops/rotary.h.
#pragma once

#include "base/worker_team.h"
#include "ops/rotary.h"

namespace sluice::cpu {

void rotary(WorkerTeam& team, const Rotary& args);

}  // namespace sluice::cpu
