// SPDX-License-Identifier: Apache-2.0
// Matrix products on AMX tiles of bf16 operands of which one has k along, as weights and activations do in all products
// but the gradients of weights: its tiles are loaded from where it lies, so that only the other is packed. gemm_plan.h
// serves the rest. An element of C is summed from the first of k to the last, whatever the blocks and threads.
#pragma once

#include "base/worker_team.h"
#include "ops/cpu/gemm_direct_kernel.h"

namespace sluice::cpu {

// m and n are positive, and gemm_direct_takes(args).
void gemm_direct(WorkerTeam& team, const Gemm& args, const DirectKernel& kernel);

}  // namespace sluice::cpu
