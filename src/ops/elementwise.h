// SPDX-License-Identifier: Apache-2.0
// Sums of tensors. Tensors are f32 or bf16, all of one dtype unless said; arithmetic is in float.
#pragma once

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

// out = a + b, all of one shape; out may be a or b.
void add(Stream& stream, TensorView out, TensorView a, TensorView b);

}  // namespace sluice
