// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/dropout.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/random_bits.cuh"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
struct Dropped {
  T* out;
  const T* in;
  std::int64_t width;
  std::int64_t first_row;
  std::uint64_t random_stream;
  std::uint32_t threshold;  // bits below it: left out
  float scale;
};

// A block takes a row: its key is that of the row's first element.
template <typename T>
__global__ void __launch_bounds__(kThreads) dropout_kernel(Dropped<T> args) {
  const std::int64_t row = blockIdx.x;
  const auto element = static_cast<std::uint64_t>(args.first_row + row) * static_cast<std::uint64_t>(args.width);
  const RandomKey key = random_key(args.random_stream, static_cast<std::uint32_t>(element >> 32));
  const T* const in = args.in + row * args.width;
  T* const out = args.out + row * args.width;
  for (std::int64_t at = threadIdx.x; at < args.width; at += kThreads) {
    const std::uint32_t bits = random_bits(key, static_cast<std::uint32_t>(element) + static_cast<std::uint32_t>(at));
    out[at] = from_float<T>(bits < args.threshold ? 0.0F : to_float(in[at]) * args.scale);
  }
}

}  // namespace

void dropout(CudaStream& stream, const Dropout& args) {
  const std::int64_t num_rows = args.in.shape()[0];
  if (args.in.shape().num_elements() == 0) return;
  with_float_type(args.in.dtype(), [&](auto element) {
    using T = decltype(element);
    const Dropped<T> on_card{.out = data<T>(args.out),
                             .in = data<T>(args.in),
                             .width = args.in.shape()[1],
                             .first_row = args.first_row,
                             .random_stream = random_stream(args.seed, 0),
                             .threshold = static_cast<std::uint32_t>(args.rate * 0x1p32),
                             .scale = static_cast<float>(1 / (1 - args.rate))};
    launch<dropout_kernel<T>, kThreads>(stream, static_cast<unsigned>(num_rows), on_card);
  });
}

}  // namespace sluice::cuda
