// SPDX-License-Identifier: Apache-2.0
// The nonlinearity of an MLP: plain, h = act(x); or gated, h = act(gate) * up, where a row holds gate then up.
// f32 or bf16, arithmetic in f32.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

enum class Activation : std::uint8_t { kSilu, kGelu, kGeluTanh, kRelu };
enum class Gating : std::uint8_t { kPlain, kGated };

struct ActivationForward {
  Activation activation = Activation::kSilu;
  Gating gating = Gating::kGated;
  TensorView x;  // (tokens, width), or (tokens, 2 * width) where gated: gate then up
  TensorView h;  // (tokens, width); may not be x
};
void activation_forward(Stream& stream, const ActivationForward& args);

struct ActivationBackward {
  Activation activation = Activation::kSilu;
  Gating gating = Gating::kGated;
  TensorView x;   // as the forward's
  TensorView dh;  // (tokens, width)
  TensorView dx;  // as x; may be x
};
void activation_backward(Stream& stream, const ActivationBackward& args);

}  // namespace sluice
