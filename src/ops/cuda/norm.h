// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/norm.h; columns.num_runs is never 0.
#pragma once

#include "device/cuda/cuda_stream.h"
#include "ops/norm.h"

namespace sluice::cuda {

void norm_forward(CudaStream& stream, const NormForward& args);
void norm_backward(CudaStream& stream, const NormBackward& args);

}  // namespace sluice::cuda
