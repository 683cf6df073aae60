// SPDX-License-Identifier: Apache-2.0
// Kernel of ops/dropout.h.
#pragma once

#include "base/worker_team.h"
#include "ops/dropout.h"

namespace sluice::cpu {

void dropout(WorkerTeam& team, const Dropout& args);

}  // namespace sluice::cpu
