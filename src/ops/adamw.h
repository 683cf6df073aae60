// SPDX-License-Identifier: Apache-2.0
// AdamW with decoupled weight decay, in the order of operations that torch.optim.AdamW has. The master weight is f32:
// either as it is, or cut into the bf16 weight that the model uses and the 16 bits that trail it, which together cost
// no more than the f32. Then bits(master) = (bits(bf16) << 16) + trailing, trailing signed: the bf16 is the master
// rounded to nearest (ties up), not cut off.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

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

struct AdamW {
  AdamWSettings settings;
  TensorView weight;    // f32: the master itself; bf16: its upper half
  TensorView trailing;  // bf16 weights: their 16 trailing bits, as many elements, two bytes each (i16 in a BF16 view)
  TensorView grad;      // f32 or bf16, as many elements
  TensorView m, v;      // f32, as many elements
};
void adamw(Stream& stream, const AdamW& args);

}  // namespace sluice
