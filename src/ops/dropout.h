// SPDX-License-Identifier: Apache-2.0
// Leaves out elements at random and makes up for it with the rest. Which ones follows from a seed and an element's
// place alone, so that whoever computes them again leaves out the same, whatever is computed at once.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

struct Dropout {
  TensorView in;   // (rows, width), f32 or bf16
  TensorView out;  // the same; may be in
  double rate = 0;
  std::uint64_t seed = 0;
  std::int64_t first_row = 0;  // of `in` within the matrix that the seed is for
};

// out = in / (1 - rate), or 0 with the odds of rate.
void dropout(Stream& stream, const Dropout& args);

}  // namespace sluice
