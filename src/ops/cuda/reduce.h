// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/reduce.h.
#pragma once

#include "device/cuda/cuda_stream.h"
#include "ops/reduce.h"

namespace sluice::cuda {

void add_column_sums(CudaStream& stream, const TensorView& sums, const TensorView& rows);
void sum_of_squares(CudaStream& stream, const TensorView& sum, const TensorView& values);

}  // namespace sluice::cuda
