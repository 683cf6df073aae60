// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/activation.h.
#pragma once

#include "device/cuda/cuda_stream.h"
#include "ops/activation.h"

namespace sluice::cuda {

void activation_forward(CudaStream& stream, const ActivationForward& args);
void activation_backward(CudaStream& stream, const ActivationBackward& args);

}  // namespace sluice::cuda
