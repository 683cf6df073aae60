// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/cross_entropy.h. A label that is no id is a fault, and its token is ignored.
#pragma once

#include "device/cuda/cuda_stream.h"
#include "ops/cross_entropy.h"

namespace sluice::cuda {

void cross_entropy(CudaStream& stream, const CrossEntropy& args);
void softmax_statistics(CudaStream& stream, const SoftmaxRange& args);
void losses_of_statistics(CudaStream& stream, const TensorView& statistics, const TensorView& labels,
                          const TensorView& losses);
void softmax_gradient(CudaStream& stream, const SoftmaxGradient& args);
void soft_cap(CudaStream& stream, const TensorView& values, float cap);

}  // namespace sluice::cuda
