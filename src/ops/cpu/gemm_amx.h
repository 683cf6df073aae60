// SPDX-License-Identifier: Apache-2.0
// gemm_tiled.h on the tile registers of this CPU.
#pragma once

#include "ops/cpu/gemm_tiled_kernel.h"

namespace sluice::cpu {

// Call only where GemmPath::kAmxBf16 is available.
TiledKernel amx_tiled_kernel();

}  // namespace sluice::cpu
