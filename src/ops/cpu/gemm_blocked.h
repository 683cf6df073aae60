// SPDX-License-Identifier: Apache-2.0
// A matrix product with any GemmKernel: packs the operands, gives blocks of C to the threads of the team, sums each
// over k in panels, in order. Scratch is kept by the calling thread for its next product: at most
// kMaxGemmSharedBytes, or one panel over all of k, and about 2 MiB for each thread of the team.
#pragma once

#include "base/worker_team.h"
#include "ops/cpu/gemm_kernel.h"

namespace sluice::cpu {

// m and n are not 0.
void gemm_blocked(WorkerTeam& team, const Gemm& args, const GemmKernel& kernel);

}  // namespace sluice::cpu
