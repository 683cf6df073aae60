// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/dropout.h: what is left out is what the CPU leaves out.
#pragma once

#include "device/cuda/cuda_stream.h"
#include "ops/dropout.h"

namespace sluice::cuda {

void dropout(CudaStream& stream, const Dropout& args);

}  // namespace sluice::cuda
