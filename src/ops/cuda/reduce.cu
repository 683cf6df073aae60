// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/partial_sums.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/reduction.cuh"

namespace sluice::cuda {
namespace {

constexpr int kColumnThreads = 128;
constexpr std::int64_t kMinRowsPerPart = 64;

// A thread sums a column over the part's rows.
template <typename T>
__global__ void __launch_bounds__(kColumnThreads)
    column_parts_kernel(float* parts, const T* rows, std::int64_t num_rows, std::int64_t num_cols,
                        std::int64_t rows_each) {
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x;
  if (col >= num_cols) return;
  const std::int64_t first = blockIdx.y * rows_each;
  const std::int64_t end = min(num_rows, first + rows_each);
  float sum = 0;
#pragma unroll 8
  for (std::int64_t row = first; row < end; ++row) sum += to_float(rows[row * num_cols + col]);
  parts[blockIdx.y * num_cols + col] = sum;
}

constexpr int kSquareThreads = 256;
constexpr std::int64_t kItemElements = 1 << 16;

template <typename T, int kVec>
__global__ void __launch_bounds__(kSquareThreads)
    square_parts_kernel(double* parts, const T* values, std::int64_t total) {
  const std::int64_t first = blockIdx.x * kItemElements;
  const std::int64_t end = min(total, first + kItemElements);
  double sum = 0;
  std::int64_t at = first + static_cast<std::int64_t>(threadIdx.x) * kVec;
  for (; at + kVec <= end; at += kSquareThreads * kVec) {
    const auto pack = *reinterpret_cast<const Pack<T, kVec>*>(values + at);
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const auto value = static_cast<double>(to_float(pack.at[j]));
      sum += value * value;
    }
  }
  for (; at < end; ++at) {  // one thread, with what is left of a pack
    const auto value = static_cast<double>(to_float(values[at]));
    sum += value * value;
  }
  sum = sum_over_group<kSquareThreads>(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kSquareThreads)
    add_squares_kernel(float* to, const double* parts, std::int64_t num_parts) {
  double sum = 0;
  for (std::int64_t part = threadIdx.x; part < num_parts; part += kSquareThreads) sum += parts[part];
  sum = sum_over_group<kSquareThreads>(sum);
  if (threadIdx.x == 0) *to = static_cast<float>(sum);
}

}  // namespace

void add_column_sums(CudaStream& stream, const TensorView& sums, const TensorView& rows) {
  const std::int64_t num_rows = rows.shape()[0];
  const std::int64_t num_cols = rows.shape()[1];
  if (num_rows == 0 || num_cols == 0) return;
  const PartialSums cut = cut_into_parts(num_rows, num_cols, kMinRowsPerPart);
  const Scratch scratch =
      stream.scratch(static_cast<std::uint64_t>(cut.num_parts * num_cols) * sizeof(float), "sums of columns");
  with_float_type(rows.dtype(), [&](auto element) {
    using T = decltype(element);
    const dim3 grid(static_cast<unsigned>(div_up(num_cols, kColumnThreads)), static_cast<unsigned>(cut.num_parts));
    launch<column_parts_kernel<T>, kColumnThreads>(stream, grid, scratch.as<float>(), data<T>(rows), num_rows, num_cols,
                                                   cut.items_per_part);
  });
  add_parts(stream, {.sums = data<float>(sums),
                     .parts = scratch.as<float>(),
                     .num_parts = cut.num_parts,
                     .stride = num_cols,
                     .num_cols = num_cols});
}

void sum_of_squares(CudaStream& stream, const TensorView& sum, const TensorView& values) {
  const std::int64_t total = values.shape().num_elements();
  const std::int64_t num_parts = div_up(total, kItemElements);
  const Scratch scratch = stream.scratch(static_cast<std::uint64_t>(num_parts) * sizeof(double), "a sum of squares");
  if (num_parts > 0) {
    with_float_type(values.dtype(), [&](auto element) {
      using T = decltype(element);
      const auto num_blocks = static_cast<unsigned>(num_parts);
      if (is_aligned_for_vectors(data<T>(values))) {
        launch<square_parts_kernel<T, kFullVec<T>>, kSquareThreads>(stream, num_blocks, scratch.as<double>(),
                                                                    data<T>(values), total);
      } else {
        launch<square_parts_kernel<T, 1>, kSquareThreads>(stream, num_blocks, scratch.as<double>(), data<T>(values),
                                                          total);
      }
    });
  }
  launch<add_squares_kernel, kSquareThreads>(stream, 1, data<float>(sum), scratch.as<double>(), num_parts);
}

}  // namespace sluice::cuda
