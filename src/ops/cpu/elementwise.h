// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/elementwise.h.
#pragma once

#include "base/worker_team.h"
#include "tensor/tensor_view.h"

namespace sluice::cpu {

void add(WorkerTeam& team, const TensorView& out, const TensorView& a, const TensorView& b);

}  // namespace sluice::cpu
