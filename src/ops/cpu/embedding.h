// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/embedding.h. Both throw InvalidInput, before anything is changed, where an id is not a row.
#pragma once

#include "base/worker_team.h"
#include "ops/embedding.h"

namespace sluice::cpu {

void embedding_forward(WorkerTeam& team, const EmbeddingForward& args);
void embedding_backward(WorkerTeam& team, const EmbeddingBackward& args);

}  // namespace sluice::cpu
