// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/quantize.h"
#include "ops/dynamic_map.h"

namespace sluice::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 8;  // elements of a thread: four bytes of codes, of one block

struct Tables {
  float nf4[16];
  float absmax[256];
};

Tables make_tables() {
  Tables tables{};
  std::copy(kNf4Values.begin(), kNf4Values.end(), tables.nf4);
  const std::array<float, 256> map = dynamic_map(CodeRange::kSigned);
  std::copy(map.begin(), map.end(), tables.absmax);
  return tables;
}

template <typename T>
struct Nf4 {
  T* to;
  const std::uint8_t* codes;         // from the first element on
  const std::uint8_t* absmax_codes;  // of the whole
  const float* absmax_scales;
  const float* absmax_mean;
  std::int64_t first_block;
  std::int64_t count;
};

template <typename T, bool kAligned>
__global__ void __launch_bounds__(kThreads) nf4_kernel(Nf4<T> args, const __grid_constant__ Tables tables) {
  __shared__ Tables shared;
  for (int i = static_cast<int>(threadIdx.x); i < 256; i += kThreads) shared.absmax[i] = tables.absmax[i];
  if (threadIdx.x < 16) shared.nf4[threadIdx.x] = tables.nf4[threadIdx.x];
  __syncthreads();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * kEach;
  for (std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kEach; at < args.count;
       at += stride) {
    const std::int64_t block = args.first_block + at / kNf4Block;
    // In double the product is exact, as on the CPU.
    const double value = static_cast<double>(shared.absmax[args.absmax_codes[block]]);
    const double scale = static_cast<double>(args.absmax_scales[block / kNf4AbsmaxBlock]);
    const auto absmax = static_cast<float>(__dadd_rn(__dmul_rn(value, scale), static_cast<double>(*args.absmax_mean)));
    if (kAligned && at + kEach <= args.count) {
      const auto codes = *reinterpret_cast<const Pack<std::uint8_t, kEach / 2>*>(args.codes + at / 2);
      Pack<T, kEach> out;
#pragma unroll
      for (int j = 0; j < kEach / 2; ++j) {
        out.at[2 * j] = from_float<T>(shared.nf4[codes.at[j] >> 4] * absmax);
        out.at[2 * j + 1] = from_float<T>(shared.nf4[codes.at[j] & 15] * absmax);
      }
      // 32 bytes of floats go in two.
      constexpr int kVec = kFullVec<T>;
#pragma unroll
      for (int j = 0; j < kEach; j += kVec) {
        *reinterpret_cast<Pack<T, kVec>*>(args.to + at + j) = *reinterpret_cast<const Pack<T, kVec>*>(out.at + j);
      }
    } else {
      for (std::int64_t i = at; i < min(at + kEach, args.count); ++i) {
        const std::uint8_t pair = args.codes[i / 2];
        args.to[i] = from_float<T>(shared.nf4[i % 2 == 0 ? pair >> 4 : pair & 15] * absmax);
      }
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    int8_kernel(T* to, const std::int8_t* codes, const float* absmax, std::int64_t num_cols) {
  const std::int64_t row = blockIdx.x;
  const float scale = absmax[row] / 127;
  for (std::int64_t col = threadIdx.x; col < num_cols; col += kThreads) {
    const std::int64_t at = row * num_cols + col;
    to[at] = from_float<T>(static_cast<float>(codes[at]) * scale);
  }
}

}  // namespace

void dequantize_nf4(CudaStream& stream, const Nf4Dequantize& args) {
  const std::int64_t count = args.to.shape().num_elements();
  if (count == 0) return;
  const auto num_blocks =
      static_cast<unsigned>(std::min<std::int64_t>(8192, div_up(count, static_cast<std::int64_t>(kThreads) * kEach)));
  with_float_type(args.to.dtype(), [&](auto element) {
    using T = decltype(element);
    const Nf4<T> on_card{.to = data<T>(args.to),
                         .codes = data<std::uint8_t>(args.from.codes) + args.first_element / 2,
                         .absmax_codes = data<std::uint8_t>(args.from.absmax_codes),
                         .absmax_scales = data<float>(args.from.absmax_scales),
                         .absmax_mean = data<float>(args.from.absmax_mean),
                         .first_block = args.first_element / kNf4Block,
                         .count = count};
    const bool aligned =
        is_aligned_for_vectors(on_card.to) && reinterpret_cast<std::uintptr_t>(on_card.codes) % (kEach / 2) == 0;
    if (aligned) {
      launch<nf4_kernel<T, true>, kThreads>(stream, num_blocks, on_card, make_tables());
    } else {
      launch<nf4_kernel<T, false>, kThreads>(stream, num_blocks, on_card, make_tables());
    }
  });
}

void dequantize_int8(CudaStream& stream, const TensorView& to, const Int8Rows& from) {
  const std::int64_t num_rows = to.shape()[0];
  if (to.shape().num_elements() == 0) return;
  with_float_type(to.dtype(), [&](auto element) {
    using T = decltype(element);
    launch<int8_kernel<T>, kThreads>(stream, static_cast<unsigned>(num_rows), data<T>(to),
                                     data<std::int8_t>(from.codes), data<float>(from.absmax), to.shape()[1]);
  });
}

}  // namespace sluice::cuda
