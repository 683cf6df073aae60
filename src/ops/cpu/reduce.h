// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/reduce.h.
#pragma once

#include "base/worker_team.h"
#include "tensor/tensor_view.h"

namespace sluice::cpu {

void add_column_sums(WorkerTeam& team, const TensorView& sums, const TensorView& rows);
void sum_of_squares(WorkerTeam& team, const TensorView& sum, const TensorView& values);

}  // namespace sluice::cpu
