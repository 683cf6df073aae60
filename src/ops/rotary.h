// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: within a head, columns i and i + half of its first 2 * half are turned by the token's
// angles. The backward is the turn the other way.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

enum class Turn : std::uint8_t { kForward, kBackward };

struct Rotary {
  TensorView heads;            // (tokens, width) f32 or bf16: heads side by side from column 0; changed in place
  TensorView cos;              // (tokens, half) f32: cosines of each token's angles, scaling included
  TensorView sin;              // (tokens, half) f32
  std::int64_t num_heads = 0;  // how many of the row's heads are turned
  std::int64_t head_dim = 0;   // at least 2 * half; columns beyond stay as they are
  Turn turn = Turn::kForward;
};
void rotary(Stream& stream, const Rotary& args);

}  // namespace sluice
