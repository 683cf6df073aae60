// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/rotary.h"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 128;

template <typename T>
struct Turned {
  T* heads;
  const float* cos;
  const float* sin;
  std::int64_t width;
  int num_heads;
  int head_dim;
  int half;
  float direction;
};

// A block turns a token. Fused as the CPU's, so that the bits are the same.
template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads) rotary_kernel(Turned<T> args) {
  const std::int64_t token = blockIdx.x;
  T* const row = args.heads + token * args.width;
  const float* const cos = args.cos + token * args.half;
  const float* const sin = args.sin + token * args.half;
  const int packs_each = args.half / kVec;
  for (int item = static_cast<int>(threadIdx.x); item < args.num_heads * packs_each; item += kThreads) {
    const int at = item % packs_each * kVec;
    T* const first = row + item / packs_each * args.head_dim + at;
    T* const second = first + args.half;
    auto x1 = *reinterpret_cast<const Pack<T, kVec>*>(first);
    auto x2 = *reinterpret_cast<const Pack<T, kVec>*>(second);
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const float c = cos[at + j];
      const float s = sin[at + j] * args.direction;
      const float a = to_float(x1.at[j]);
      const float b = to_float(x2.at[j]);
      x1.at[j] = from_float<T>(__fmaf_rn(-b, s, __fmul_rn(a, c)));
      x2.at[j] = from_float<T>(__fmaf_rn(a, s, __fmul_rn(b, c)));
    }
    *reinterpret_cast<Pack<T, kVec>*>(first) = x1;
    *reinterpret_cast<Pack<T, kVec>*>(second) = x2;
  }
}

}  // namespace

void rotary(CudaStream& stream, const Rotary& args) {
  const std::int64_t num_tokens = args.heads.shape()[0];
  const std::int64_t half = args.cos.shape()[1];
  if (num_tokens == 0 || half == 0 || args.num_heads == 0) return;
  with_float_type(args.heads.dtype(), [&](auto element) {
    using T = decltype(element);
    constexpr int kVec = kFullVec<T>;
    const Turned<T> on_card{.heads = data<T>(args.heads),
                            .cos = data<float>(args.cos),
                            .sin = data<float>(args.sin),
                            .width = args.heads.shape()[1],
                            .num_heads = static_cast<int>(args.num_heads),
                            .head_dim = static_cast<int>(args.head_dim),
                            .half = static_cast<int>(half),
                            .direction = args.turn == Turn::kForward ? 1.0F : -1.0F};
    const bool vectors = is_aligned_for_vectors(on_card.heads) && on_card.width % kVec == 0 &&
                         on_card.head_dim % kVec == 0 && half % kVec == 0;
    const auto num_blocks = static_cast<unsigned>(num_tokens);
    if (vectors) {
      launch<rotary_kernel<T, kVec>, kThreads>(stream, num_blocks, on_card);
    } else {
      launch<rotary_kernel<T, 1>, kThreads>(stream, num_blocks, on_card);
    }
  });
}

}  // namespace sluice::cuda
