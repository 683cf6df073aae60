// SPDX-License-Identifier: Apache-2.0
// Kernel of ops/adamw.h: one pass over all tensors, so that memory sets its speed.
#pragma once

#include <span>

#include "base/worker_team.h"
#include "ops/adamw.h"

namespace sluice::cpu {

void adamw(WorkerTeam& team, std::span<const AdamW> parts);

}  // namespace sluice::cpu
