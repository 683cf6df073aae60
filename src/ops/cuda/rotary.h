// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/rotary.h.
#pragma once

#include "device/cuda/cuda_stream.h"
#include "ops/rotary.h"

namespace sluice::cuda {

void rotary(CudaStream& stream, const Rotary& args);

}  // namespace sluice::cuda
