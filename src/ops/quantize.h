// SPDX-License-Identifier: Apache-2.0
// Weights in 4 and 8 bits, for models whose base is only read. NF4 as published with QLoRA (Dettmers et al., 2023) and
// laid out as its authors' bitsandbytes does; int8 by rows as in LLM.int8() (Dettmers et al., 2022), without its
// outlier columns. Weights are finite: one that is not makes NaN of its row (int8) or of everything (NF4).
#pragma once

#include <array>
#include <cstdint>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

// The 16 values that a code stands for, times its block's absmax: quantiles of the normal distribution, with a 0.
inline constexpr std::array<float, 16> kNf4Values = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

inline constexpr std::int64_t kNf4Block = 64;         // elements that share an absmax
inline constexpr std::int64_t kNf4AbsmaxBlock = 256;  // absmaxes that share a scale

// The bytes of n elements: 4 bits each, 8 bits a block of them, 32 bits a block of those, one f32. That is 4.127 bits.
//   codes          element 2 i in the upper half of byte i, element 2 i + 1 in the lower; 0 where n is odd
//   absmax_codes   signed codes of ops/dynamic_map.h; absmax = value * scale + mean, rounded once
//   absmax_scales  the largest magnitude of absmax - mean in a block of 256
//   absmax_mean    of all of the tensor's
struct Nf4Tensor {
  TensorView codes;          // u8, (n + 1) / 2
  TensorView absmax_codes;   // u8, ceil(n / 64)
  TensorView absmax_scales;  // f32, ceil(n / 64 / 256)
  TensorView absmax_mean;    // f32, 1
};

struct Nf4Sizes {
  std::int64_t num_code_bytes = 0;
  std::int64_t num_absmax_codes = 0;
  std::int64_t num_absmax_scales = 0;
};
constexpr Nf4Sizes nf4_sizes(std::int64_t num_elements) {
  const std::int64_t num_blocks = (num_elements + kNf4Block - 1) / kNf4Block;
  return {(num_elements + 1) / 2, num_blocks, (num_blocks + kNf4AbsmaxBlock - 1) / kNf4AbsmaxBlock};
}

// `from`: f32 or bf16, of any shape, n elements. Each becomes the nearest value times its block's exact absmax; of two
// equally near, the lower.
void quantize_nf4(Stream& stream, const Nf4Tensor& to, TensorView from);

// `to`: f32 or bf16, so many of the elements from `first_element` on, which begins a block.
struct Nf4Dequantize {
  TensorView to;
  Nf4Tensor from;
  std::int64_t num_elements = 0;  // of the whole
  std::int64_t first_element = 0;
};
void dequantize_nf4(Stream& stream, const Nf4Dequantize& args);

// element = code * absmax / 127; codes are in [-127, 127], rounded to nearest, ties to even.
struct Int8Rows {
  TensorView codes;   // i8, (rows, cols)
  TensorView absmax;  // f32, (rows): the largest magnitude of a row
};
void quantize_int8(Stream& stream, const Int8Rows& to, TensorView from);    // from: f32 or bf16, (rows, cols)
void dequantize_int8(Stream& stream, TensorView to, const Int8Rows& from);  // to: f32 or bf16, (rows, cols)

}  // namespace sluice
