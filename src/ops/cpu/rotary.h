// SPDX-License-Identifier: Apache-2.0
// Kernel of ops/rotary.h.
#pragma once

#include "base/worker_team.h"
#include "ops/rotary.h"

namespace sluice::cpu {

// Throws InvalidInput, before anything is changed, where a position is beyond the tables.
void rotary(WorkerTeam& team, const Rotary& args);

}  // namespace sluice::cpu
