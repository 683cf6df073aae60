// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/low_rank.h.
#pragma once

#include <vector>

#include "base/worker_team.h"
#include "ops/low_rank.h"

namespace sluice::cpu {

void spread_blocks(WorkerTeam& team, const TensorView& wide, const std::vector<LowRankBlock>& blocks, float scale);
void add_from_blocks(WorkerTeam& team, const std::vector<LowRankBlock>& blocks, const TensorView& wide, float scale);

}  // namespace sluice::cpu
