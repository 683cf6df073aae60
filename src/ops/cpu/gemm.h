// SPDX-License-Identifier: Apache-2.0
// The kernel of ops/gemm.h.
#pragma once

#include "base/worker_team.h"
#include "ops/gemm.h"

namespace sluice::cpu {

void gemm(WorkerTeam& team, const Gemm& args);

}  // namespace sluice::cpu
