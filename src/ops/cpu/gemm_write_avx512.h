// SPDX-License-Identifier: Apache-2.0
// Writes a finished tile where the CPU has AVX-512 (F, BW, VL, DQ). A tile has 32 columns at most. Short products spend
// a good part of their time here.
#pragma once

#include "ops/cpu/gemm_kernel.h"

namespace sluice::cpu {

void write_avx512(const GemmOutput& output, const GemmPlace& place, const float* sums, std::int64_t stride);

}  // namespace sluice::cpu
