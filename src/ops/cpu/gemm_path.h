// SPDX-License-Identifier: Apache-2.0
// The instructions that a matrix product on the CPU may use. What is there is found out once and never changes while
// the process lives. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace sluice {

enum class GemmPath : std::uint8_t {
  kBaseline,
  kAvx2,
  kAvx512,
  kAvx512Bf16,  // vdpbf16ps
  kAmxBf16,     // tdpbf16ps
};

std::string_view name(GemmPath path);  // "avx512-bf16"

// Those of this CPU and kernel, best last. The first call asks the kernel for the use of AMX tiles.
const std::vector<GemmPath>& gemm_paths_available();

// Whether the path multiplies operands of this type: those for bf16 take nothing else.
bool gemm_path_takes(GemmPath path, DType dtype);
GemmPath best_gemm_path(DType dtype);

}  // namespace sluice
