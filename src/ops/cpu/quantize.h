// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/quantize.h: NF4 in nf4.cc, int8 in int8_rows.cc.
#pragma once

#include "base/worker_team.h"
#include "ops/quantize.h"

namespace sluice::cpu {

void quantize_nf4(WorkerTeam& team, const Nf4Tensor& to, const TensorView& from);
void dequantize_nf4(WorkerTeam& team, const Nf4Dequantize& args);

void quantize_int8(WorkerTeam& team, const Int8Rows& to, const TensorView& from);
void dequantize_int8(WorkerTeam& team, const TensorView& to, const Int8Rows& from);

}  // namespace sluice::cpu
