// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_error.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/low_rank.h"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 256;

// Where a block stands in the wide matrix.
struct Corner {
  std::int64_t at;  // of the block's first element
  std::int64_t width;
  std::int64_t rank;
  std::int64_t count;  // of the block's elements
};

Corner corner_of(const LowRankBlock& block, const TensorView& wide) {
  const std::int64_t width = wide.shape()[1];
  return {.at = block.first_row * width + block.first_col,
          .width = width,
          .rank = block.matrix.shape()[1],
          .count = block.matrix.shape().num_elements()};
}

unsigned blocks_for(std::int64_t count) { return static_cast<unsigned>(div_up(count, kThreads)); }

template <typename T>
__global__ void spread_kernel(T* wide, const float* matrix, Corner corner, float scale) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= corner.count) return;
  wide[corner.at + i / corner.rank * corner.width + i % corner.rank] = from_float<T>(__fmul_rn(scale, matrix[i]));
}

__global__ void add_kernel(float* matrix, const float* wide, Corner corner, float scale) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= corner.count) return;
  const float value = wide[corner.at + i / corner.rank * corner.width + i % corner.rank];
  matrix[i] = __fadd_rn(matrix[i], __fmul_rn(scale, value));
}

}  // namespace

void spread_blocks(CudaStream& stream, const TensorView& wide, const std::vector<LowRankBlock>& blocks, float scale) {
  if (wide.bytes().empty()) return;
  const auto size = static_cast<std::uint64_t>(wide.shape().num_elements()) * size_bytes(wide.dtype());
  require(cudaMemsetAsync(wide.bytes().data(), 0, size, stream.handle()), "cudaMemsetAsync of spread_blocks");
  for (const LowRankBlock& block : blocks) {
    const Corner corner = corner_of(block, wide);
    if (corner.count == 0) continue;
    with_float_type(wide.dtype(), [&](auto element) {
      using T = decltype(element);
      launch<spread_kernel<T>, kThreads>(stream, blocks_for(corner.count), data<T>(wide), data<float>(block.matrix),
                                         corner, scale);
    });
  }
}

void add_from_blocks(CudaStream& stream, const std::vector<LowRankBlock>& blocks, const TensorView& wide, float scale) {
  for (const LowRankBlock& block : blocks) {
    const Corner corner = corner_of(block, wide);
    if (corner.count == 0) continue;
    launch<add_kernel, kThreads>(stream, blocks_for(corner.count), data<float>(block.matrix), data<float>(wide), corner,
                                 scale);
  }
}

}  // namespace sluice::cuda
