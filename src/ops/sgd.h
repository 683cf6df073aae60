// SPDX-License-Identifier: Apache-2.0
// Gradient descent, in the order of operations that torch.optim.SGD has (no dampening): weight decay joins the
// gradient, the momentum is momentum * itself + that, the weight goes against it. Masters as in ops/adamw.h.
#pragma once

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

struct SgdSettings {
  double learning_rate = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  float grad_scale = 1;  // gradients are multiplied by it first: the clip
};

struct Sgd {
  SgdSettings settings;
  TensorView weight;    // f32: the master itself; bf16: its upper half
  TensorView trailing;  // bf16 weights: their 16 trailing bits, as many elements, two bytes each
  TensorView grad;      // f32 or bf16, as many elements
  TensorView velocity;  // f32, as many elements, zeros before the first step; none where momentum is 0
};
void sgd(Stream& stream, const Sgd& args);

}  // namespace sluice
