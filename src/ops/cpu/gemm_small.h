// SPDX-License-Identifier: Apache-2.0
// Products of few rows with a weight that has k along, as in generation: each row of the weight is read once, where it
// lies, and multiplied with all rows of A. Bound by memory, so nothing is packed but A.
#pragma once

#include "base/worker_team.h"
#include "ops/cpu/gemm_kernel.h"
#include "ops/cpu/gemm_path.h"

namespace sluice::cpu {

bool gemm_small_takes(const Gemm& args);

// `write` is that of the path's kernel.
void gemm_small(WorkerTeam& team, const Gemm& args, GemmPath path, decltype(GemmKernel::write) write);

}  // namespace sluice::cpu
