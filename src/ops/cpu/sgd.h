// SPDX-License-Identifier: Apache-2.0
// Kernel of ops/sgd.h.
#pragma once

#include "base/worker_team.h"
#include "ops/sgd.h"

namespace sluice::cpu {

void sgd(WorkerTeam& team, const Sgd& args);

}  // namespace sluice::cpu
