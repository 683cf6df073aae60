// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/embedding.h. An id that is in no range is a fault, and its token is left out.
#pragma once

#include "device/cuda/cuda_stream.h"
#include "ops/embedding.h"

namespace sluice::cuda {

void embedding_forward(CudaStream& stream, const EmbeddingForward& args);
void embedding_backward(CudaStream& stream, const EmbeddingBackward& args);

}  // namespace sluice::cuda
