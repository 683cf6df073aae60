// SPDX-License-Identifier: Apache-2.0
// The kernel of ops/gemm.h.
#pragma once

#include "base/worker_team.h"
#include "ops/cpu/gemm_path.h"
#include "ops/gemm.h"

namespace sluice::cpu {

// With the best path for the operands.
void gemm(WorkerTeam& team, const Gemm& args);
// A bug where the path is not available or does not take the operands' type.
void gemm(WorkerTeam& team, const Gemm& args, GemmPath path);

}  // namespace sluice::cpu
