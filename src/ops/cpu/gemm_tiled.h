// SPDX-License-Identifier: Apache-2.0
// Matrix products on AMX tiles, of bf16 operands. Where one has k along, as weights and activations do in all products
// but the gradients of weights, its tiles are loaded from where it lies, and only the other is packed. An element of C
// is summed panel by panel of k, each from its first to its last, whatever the blocks and threads.
#pragma once

#include "base/worker_team.h"
#include "ops/cpu/gemm_tiled_kernel.h"
#include "ops/gemm.h"

namespace sluice::cpu {

// m and n are positive.
void gemm_tiled(WorkerTeam& team, const Gemm& args, const TiledKernel& kernel);

}  // namespace sluice::cpu
