// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/element.cuh"
#include "ops/cuda/gemm.h"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 256;

template <typename C, typename B>
__global__ void add_bias_kernel(C* c, const B* bias, std::int64_t num_cols) {
  const std::int64_t row = blockIdx.x;
  for (std::int64_t col = threadIdx.x; col < num_cols; col += kThreads) {
    C* const at = c + row * num_cols + col;
    *at = from_float<C>(to_float(*at) + to_float(bias[col]));
  }
}

}  // namespace

void add_bias(CudaStream& stream, const TensorView& c, const TensorView& bias) {
  const std::int64_t num_rows = c.shape()[0];
  const std::int64_t num_cols = c.shape()[1];
  with_float_type(c.dtype(), [&](auto c_element) {
    with_float_type(bias.dtype(), [&](auto bias_element) {
      using C = decltype(c_element);
      using B = decltype(bias_element);
      add_bias_kernel<C, B>
          <<<static_cast<unsigned>(num_rows), kThreads, 0, stream.handle()>>>(data<C>(c), data<B>(bias), num_cols);
    });
  });
}

}  // namespace sluice::cuda
