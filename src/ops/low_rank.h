// SPDX-License-Identifier: Apache-2.0
// Small matrices that stand in one wide matrix, each at its own rows and columns with zeros around it: the second
// matrices of several low-rank products, so that one product with the wide matrix computes them all.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

struct LowRankBlock {
  TensorView matrix;  // (rows, rank) f32
  std::int64_t first_row = 0;
  std::int64_t first_col = 0;
};

// wide (rows, columns), f32 or bf16: scale times the blocks, rounded once; zeros where no block is. Blocks do not share
// rows.
void spread_blocks(Stream& stream, TensorView wide, const std::vector<LowRankBlock>& blocks, float scale);
// Every block += scale times what stands in its place in wide, f32.
void add_from_blocks(Stream& stream, const std::vector<LowRankBlock>& blocks, TensorView wide, float scale);

}  // namespace sluice
