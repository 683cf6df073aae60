// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/quantize.h: codes become weights, to the CPU's bits. Weights become codes on the host alone, once.
#pragma once

#include "device/cuda/cuda_stream.h"
#include "ops/quantize.h"

namespace sluice::cuda {

void dequantize_nf4(CudaStream& stream, const Nf4Dequantize& args);
void dequantize_int8(CudaStream& stream, const TensorView& to, const Int8Rows& from);

}  // namespace sluice::cuda
