// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/cuda/cuda_error.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/launch.cuh"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 8192;

unsigned num_blocks(std::int64_t num_items) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(div_up(num_items, kThreads), 1, kMaxBlocks));
}

template <typename T, int kVec>
__global__ void add_kernel(T* out, const T* a, const T* b, std::int64_t num_packs) {
  using P = Pack<T, kVec>;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < num_packs; i += stride) {
    const P left = reinterpret_cast<const P*>(a)[i];
    const P right = reinterpret_cast<const P*>(b)[i];
    P sum;
#pragma unroll
    for (int j = 0; j < kVec; ++j) sum.at[j] = from_float<T>(to_float(left.at[j]) + to_float(right.at[j]));
    reinterpret_cast<P*>(out)[i] = sum;
  }
}

template <int kVec>
__global__ void round_kernel(Bf16* out, const float* in, std::int64_t num_packs) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < num_packs; i += stride) {
    const Pack<float, kVec> from = reinterpret_cast<const Pack<float, kVec>*>(in)[i];
    Pack<Bf16, kVec> to;
#pragma unroll
    for (int j = 0; j < kVec; ++j) to.at[j] = from_float<Bf16>(from.at[j]);
    reinterpret_cast<Pack<Bf16, kVec>*>(out)[i] = to;
  }
}

__global__ void round_values_kernel(float* values, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    values[i] = to_float(from_float<Bf16>(values[i]));
  }
}

}  // namespace

void round_values(CudaStream& stream, const TensorView& values) {
  const std::int64_t count = values.shape().num_elements();
  if (count == 0) return;
  launch<round_values_kernel, kThreads>(stream, num_blocks(count), data<float>(values), count);
}

void add(CudaStream& stream, const TensorView& out, const TensorView& a, const TensorView& b) {
  const std::int64_t num_elements = out.shape().num_elements();
  if (num_elements == 0) return;
  with_float_type(out.dtype(), [&](auto element) {
    using T = decltype(element);
    constexpr int kVec = kFullVec<T>;
    const bool aligned = is_aligned_for_vectors(data<T>(out)) && is_aligned_for_vectors(data<T>(a)) &&
                         is_aligned_for_vectors(data<T>(b));
    // Whole packs, then what is left, element by element.
    const std::int64_t num_packs = aligned ? num_elements / kVec : 0;
    const std::int64_t done = num_packs * kVec;
    if (num_packs > 0) {
      launch<add_kernel<T, kVec>, kThreads>(stream, num_blocks(num_packs), data<T>(out), data<T>(a), data<T>(b),
                                            num_packs);
    }
    if (done < num_elements) {
      launch<add_kernel<T, 1>, kThreads>(stream, num_blocks(num_elements - done), data<T>(out) + done,
                                         data<T>(a) + done, data<T>(b) + done, num_elements - done);
    }
  });
}

void round_to(CudaStream& stream, const TensorView& out, const TensorView& in) {
  const std::int64_t num_elements = out.shape().num_elements();
  if (num_elements == 0) return;
  if (out.dtype() == DType::kF32) {
    require(
        cudaMemcpyAsync(out.bytes().data(), in.bytes().data(), static_cast<std::size_t>(num_elements) * sizeof(float),
                        cudaMemcpyDeviceToDevice, stream.handle()),
        "cudaMemcpyAsync of round_to");
    return;
  }
  constexpr int kVec = 4;
  const bool aligned = is_aligned_for_vectors(data<Bf16>(out)) && is_aligned_for_vectors(data<float>(in));
  const std::int64_t num_packs = aligned ? num_elements / kVec : 0;
  const std::int64_t done = num_packs * kVec;
  if (num_packs > 0) {
    launch<round_kernel<kVec>, kThreads>(stream, num_blocks(num_packs), data<Bf16>(out), data<float>(in), num_packs);
  }
  if (done < num_elements) {
    launch<round_kernel<1>, kThreads>(stream, num_blocks(num_elements - done), data<Bf16>(out) + done,
                                      data<float>(in) + done, num_elements - done);
  }
}

void copy_columns(CudaStream& stream, const Columns& to, const Columns& from, std::int64_t num_cols) {
  const std::int64_t num_rows = to.rows.shape()[0];
  if (num_rows == 0 || num_cols == 0) return;
  const std::uint64_t element_bytes = size_bytes(to.rows.dtype());
  const auto bytes = [&](std::int64_t num_elements) {
    return static_cast<std::uint64_t>(num_elements) * element_bytes;
  };
  require(
      cudaMemcpy2DAsync(to.rows.bytes().data() + bytes(to.first_col), bytes(to.rows.shape()[1]),
                        from.rows.bytes().data() + bytes(from.first_col), bytes(from.rows.shape()[1]), bytes(num_cols),
                        static_cast<std::size_t>(num_rows), cudaMemcpyDeviceToDevice, stream.handle()),
      "cudaMemcpy2DAsync of copy_columns");
}

}  // namespace sluice::cuda
