// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/elementwise.h.
#pragma once

#include <cstdint>

#include "base/worker_team.h"
#include "tensor/tensor_view.h"

namespace sluice::cpu {

void add(WorkerTeam& team, const TensorView& out, const TensorView& a, const TensorView& b);

void round_to(WorkerTeam& team, const TensorView& out, const TensorView& in);

void round_values(WorkerTeam& team, const TensorView& values);

struct ColumnCopy {
  TensorView to, from;
  std::int64_t to_col = 0;
  std::int64_t from_col = 0;
  std::int64_t num_cols = 0;
};
void copy_columns(WorkerTeam& team, const ColumnCopy& copy);

}  // namespace sluice::cpu
