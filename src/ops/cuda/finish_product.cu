// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/element.cuh"
#include "ops/cuda/finish_product.h"
#include "ops/cuda/launch.cuh"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 256;

template <typename C, typename B>
__global__ void __launch_bounds__(kThreads)
    finish_kernel(C* c, const float* product, const B* bias, std::int64_t num_cols, Into into) {
  const std::int64_t row = blockIdx.x;
  for (std::int64_t col = threadIdx.x; col < num_cols; col += kThreads) {
    const std::int64_t at = row * num_cols + col;
    float value = product != nullptr ? product[at] : 0;
    if (bias != nullptr) value += to_float(bias[col]);
    if (into == Into::kAdd) value += to_float(c[at]);
    c[at] = from_float<C>(value);
  }
}

}  // namespace

void finish_product(CudaStream& stream, const FinishProduct& args) {
  const bool has_bias = !args.bias.bytes().empty();
  with_float_type(args.c.dtype(), [&](auto c_element) {
    with_float_type(has_bias ? args.bias.dtype() : DType::kF32, [&](auto bias_element) {
      using C = decltype(c_element);
      using B = decltype(bias_element);
      launch<finish_kernel<C, B>, kThreads>(stream, static_cast<unsigned>(args.c.shape()[0]), data<C>(args.c),
                                            args.product, has_bias ? data<B>(args.bias) : nullptr, args.c.shape()[1],
                                            args.into);
    });
  });
}

}  // namespace sluice::cuda
