// SPDX-License-Identifier: Apache-2.0
// The kernel that multiplies pairs of bf16 with vdpbf16ps. The instruction takes subnormal numbers for zero.
#pragma once

#include "ops/cpu/gemm_kernel.h"

namespace sluice::cpu {

// Call only where the CPU has AVX-512 with BF16.
GemmKernel avx512_bf16_kernel();

}  // namespace sluice::cpu
