// SPDX-License-Identifier: Apache-2.0
// Plain loops: these matrices are as narrow as a rank, and are gone over once for thousands of tokens.
#include "ops/cpu/low_rank.h"

#include <algorithm>

#include "base/bf16.h"
#include "ops/cpu/items.h"

namespace sluice::cpu {
namespace {

constexpr std::int64_t kItemRows = 64;

template <typename Visit>
void for_rows(WorkerTeam& team, std::int64_t num_rows, const Visit& visit) {
  over_items(team, num_rows, kItemRows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t row = first; row < first + count; ++row) visit(row);
  });
}

float rounded(float value, float /*as*/) { return value; }
BF16 rounded(float value, BF16 /*as*/) { return to_bf16(value); }

template <typename T>
void spread(WorkerTeam& team, const TensorView& wide, const std::vector<LowRankBlock>& blocks, float scale) {
  const std::int64_t width = wide.shape()[1];
  T* const all = wide.as<T>().data();
  for_rows(team, wide.shape()[0], [&](std::int64_t row) {
    T* const to = all + row * width;
    std::fill_n(to, width, T());
    for (const LowRankBlock& block : blocks) {
      const std::int64_t at = row - block.first_row;
      if (at < 0 || at >= block.matrix.shape()[0]) continue;
      const std::int64_t rank = block.matrix.shape()[1];
      const float* const from = block.matrix.as<float>().data() + at * rank;
      for (std::int64_t idx = 0; idx < rank; ++idx) to[block.first_col + idx] = rounded(scale * from[idx], T());
    }
  });
}

}  // namespace

void spread_blocks(WorkerTeam& team, const TensorView& wide, const std::vector<LowRankBlock>& blocks, float scale) {
  if (wide.dtype() == DType::kF32) {
    spread<float>(team, wide, blocks, scale);
  } else {
    spread<BF16>(team, wide, blocks, scale);
  }
}

void add_from_blocks(WorkerTeam& team, const std::vector<LowRankBlock>& blocks, const TensorView& wide, float scale) {
  const std::int64_t width = wide.shape()[1];
  const float* const all = wide.as<float>().data();
  for (const LowRankBlock& block : blocks) {
    const std::int64_t rank = block.matrix.shape()[1];
    float* const sums = block.matrix.as<float>().data();
    for_rows(team, block.matrix.shape()[0], [&](std::int64_t row) {
      const float* const from = all + (block.first_row + row) * width + block.first_col;
      float* const to = sums + row * rank;
      for (std::int64_t idx = 0; idx < rank; ++idx) to[idx] += scale * from[idx];
    });
  }
}

}  // namespace sluice::cpu
