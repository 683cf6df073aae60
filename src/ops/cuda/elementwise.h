// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/elementwise.h.
#pragma once

#include <cstdint>

#include "device/cuda/cuda_stream.h"
#include "ops/elementwise.h"

namespace sluice::cuda {

void add(CudaStream& stream, const TensorView& out, const TensorView& a, const TensorView& b);
void round_to(CudaStream& stream, const TensorView& out, const TensorView& in);
void round_values(CudaStream& stream, const TensorView& values);
void copy_columns(CudaStream& stream, const Columns& to, const Columns& from, std::int64_t num_cols);

}  // namespace sluice::cuda
