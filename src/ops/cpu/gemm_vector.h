// SPDX-License-Identifier: Apache-2.0
// Kernels that multiply f32 (bf16 is widened when it is packed) with fused multiply-adds, for each instruction set that
// Highway dispatches to.
#pragma once

#include "ops/cpu/gemm_kernel.h"

namespace sluice::cpu {

// dtype is that of A and B: f32 or bf16. Call only where the CPU has the instruction set.
GemmKernel avx512_kernel(DType dtype);
GemmKernel avx2_kernel(DType dtype);
GemmKernel baseline_kernel(DType dtype);

}  // namespace sluice::cpu
