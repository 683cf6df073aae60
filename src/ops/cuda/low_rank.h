// SPDX-License-Identifier: Apache-2.0
// Kernels of ops/low_rank.h.
#pragma once

#include <vector>

#include "device/cuda/cuda_stream.h"
#include "ops/low_rank.h"

namespace sluice::cuda {

void spread_blocks(CudaStream& stream, const TensorView& wide, const std::vector<LowRankBlock>& blocks, float scale);
void add_from_blocks(CudaStream& stream, const std::vector<LowRankBlock>& blocks, const TensorView& wide, float scale);

}  // namespace sluice::cuda
