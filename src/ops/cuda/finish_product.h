// SPDX-License-Identifier: Apache-2.0
// What follows a matrix product that cuBLASLt cannot write as it should be.
#pragma once

#include "device/cuda/cuda_stream.h"
#include "ops/gemm.h"

namespace sluice::cuda {

struct FinishProduct {
  TensorView c;                    // (m, n) f32 or bf16
  const float* product = nullptr;  // (m, n); null: zeros
  TensorView bias;                 // (n) f32 or bf16, or default-constructed: none
  Into into = Into::kOverwrite;
};

// c = product (+ bias) (+ c), rounded once.
void finish_product(CudaStream& stream, const FinishProduct& args);

}  // namespace sluice::cuda
