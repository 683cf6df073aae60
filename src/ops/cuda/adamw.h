// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/adamw.h.
#pragma once

#include "device/cuda/cuda_stream.h"
#include "ops/adamw.h"

namespace sluice::cuda {

void adamw(CudaStream& stream, const AdamW& args);

}  // namespace sluice::cuda
