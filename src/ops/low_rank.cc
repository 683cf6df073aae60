// SPDX-License-Identifier: Apache-2.0
#include "ops/low_rank.h"

#include "ops/cpu/low_rank.h"
#include "ops/dispatch.h"

namespace sluice {
namespace {

void check_blocks(const std::vector<LowRankBlock>& blocks, const TensorView& wide) {
  CHECK(wide.shape().rank() == 2, "a matrix");
  for (const LowRankBlock& block : blocks) {
    CHECK(block.matrix.dtype() == DType::kF32 && block.matrix.shape().rank() == 2, "f32 matrices");
    CHECK(block.first_row >= 0 && block.first_row + block.matrix.shape()[0] <= wide.shape()[0], "rows that are there");
    CHECK(block.first_col >= 0 && block.first_col + block.matrix.shape()[1] <= wide.shape()[1],
          "columns that are there");
  }
}

}  // namespace

void spread_blocks(Stream& stream, TensorView wide, const std::vector<LowRankBlock>& blocks, float scale) {
  CHECK(wide.dtype() == DType::kF32 || wide.dtype() == DType::kBF16, "f32 or bf16");
  check_blocks(blocks, wide);
  dispatch(
      stream, [&](Kernels& kernels) { kernels.spread_blocks(stream, wide, blocks, scale); },
      [wide, blocks, scale](WorkerTeam& team) { cpu::spread_blocks(team, wide, blocks, scale); });
}

void add_from_blocks(Stream& stream, const std::vector<LowRankBlock>& blocks, TensorView wide, float scale) {
  CHECK(wide.dtype() == DType::kF32, "sums are f32");
  check_blocks(blocks, wide);
  dispatch(
      stream, [&](Kernels& kernels) { kernels.add_from_blocks(stream, blocks, wide, scale); },
      [wide, blocks, scale](WorkerTeam& team) { cpu::add_from_blocks(team, blocks, wide, scale); });
}

}  // namespace sluice
