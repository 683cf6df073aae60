// SPDX-License-Identifier: Apache-2.0
// AdamW with decoupled weight decay, in the order of operations that torch.optim.AdamW has. The master weight is f32:
// either as it is, or cut into the bf16 weight that the model uses and the 16 bits that trail it, which together cost
// no more than the f32. Then bits(master) = (bits(bf16) << 16) + trailing, trailing signed: the bf16 is the master
// rounded to nearest (ties up), not cut off.
// The moments' dtype is their precision; memory of zeros is a state of zeros in each. An update of a part of a slice
// gives the bits that an update of the whole slice gives that part, on any number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

// 8-bit moments share a scale in blocks of so many elements of the slice.
inline constexpr std::int64_t kMomentBlock = 256;

// Doubles, since 1 - beta2 of a float beta2 is off by 1e-5; elements are computed in float.
struct AdamWSettings {
  double learning_rate = 1e-5;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  std::int64_t step = 1;  // of this update; the first is 1
  float grad_scale = 1;   // gradients are multiplied by it first: the clip
};

// f32 moments are what is computed. bf16 moments are rounded stochastically, up or down with the odds of where they
// lie, by random bits from (seed, step, element of the slice): what is too small to show in one step shows on average.
// 8-bit moments are codes of ops/dynamic_map.h, signed for m and unsigned for v, times the largest magnitude of their
// block: the nearest code, but for v that is not 0 the smallest that is not, lest m be divided by eps alone. A moment
// that is infinite or NaN shows as such, or as NaN, in all of its block.
struct AdamW {
  AdamWSettings settings;
  TensorView weight;    // f32: the master itself; bf16: its upper half
  TensorView trailing;  // bf16 weights: their 16 trailing bits, as many elements, two bytes each (i16 in a BF16 view)
  TensorView grad;      // f32 or bf16, as many elements
  TensorView m, v;      // both f32, both bf16 or both u8 (codes), as many elements
  TensorView m_absmax, v_absmax;   // u8 moments: f32, one for each block, the last of which may be short
  std::uint64_t seed = 0;          // bf16 moments: another one for each slice
  std::int64_t first_element = 0;  // which of the slice is the first here; u8 moments: the first of a block
};
void adamw(Stream& stream, const AdamW& args);
// Several at once, none of which touches another's memory: threads share them out together.
void adamw(Stream& stream, const std::vector<AdamW>& parts);

}  // namespace sluice
