// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/units.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/partial_sums.h"

namespace sluice::cuda {
namespace {

constexpr std::int64_t kMaxParts = 512;
constexpr std::int64_t kMaxPartBytes = 16 * kMiB;
constexpr int kCols = 32;
constexpr int kRows = 16;  // rows of threads in a block, kCols threads each

// A thread in row y sums the parts y, y + 16, …; then the 16 partial sums are added in order.
__global__ void add_parts_kernel(AddParts args) {
  __shared__ float of_row[kRows][kCols];
  const int x = static_cast<int>(threadIdx.x) % kCols;
  const int y = static_cast<int>(threadIdx.x) / kCols;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * kCols + x;
  float sum = 0;
  if (col < args.num_cols) {
    for (std::int64_t part = y; part < args.num_parts; part += kRows) {
      sum += args.parts[part * args.stride + col];
    }
  }
  of_row[y][x] = sum;
  __syncthreads();
  if (y == 0 && col < args.num_cols) {
    for (int row = 1; row < kRows; ++row) sum += of_row[row][x];
    args.sums[col] += sum;
  }
}

}  // namespace

PartialSums cut_into_parts(std::int64_t num_items, std::int64_t num_cols, std::int64_t min_items_per_part) {
  const std::int64_t room =
      kMaxPartBytes / (static_cast<std::int64_t>(sizeof(float)) * std::max<std::int64_t>(1, num_cols));
  const std::int64_t wanted = std::min(kMaxParts, div_up(num_items, min_items_per_part));
  const std::int64_t num_parts = std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, room));
  const std::int64_t items_per_part = std::max<std::int64_t>(1, div_up(num_items, num_parts));
  return {.num_parts = std::max<std::int64_t>(1, div_up(num_items, items_per_part)), .items_per_part = items_per_part};
}

void add_parts(CudaStream& stream, const AddParts& args) {
  if (args.num_cols == 0) return;
  launch<add_parts_kernel, kCols * kRows>(stream, static_cast<unsigned>(div_up(args.num_cols, kCols)), args);
}

}  // namespace sluice::cuda
