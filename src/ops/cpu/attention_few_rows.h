// SPDX-License-Identifier: Apache-2.0
// Attention of few rows, as in generation: reading K and V is all the time it takes. The keys are cut into parts of a
// fixed size that threads take as they come, and the parts' results are merged in order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/worker_team.h"
#include "ops/attention.h"
#include "ops/cpu/attention_blocks.h"

namespace sluice::cpu {

// Every group has at most kFewRows rows, and one at least.
void attend_few_rows(WorkerTeam& team, const AttentionForward& args, const std::vector<RowGroup>& groups);

}  // namespace sluice::cpu
