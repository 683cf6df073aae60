// SPDX-License-Identifier: Apache-2.0
// Kernel of ops/sgd.h.
#pragma once

#include "device/cuda/cuda_stream.h"
#include "ops/sgd.h"

namespace sluice::cuda {

void sgd(CudaStream& stream, const Sgd& args);

}  // namespace sluice::cuda
