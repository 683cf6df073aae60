// SPDX-License-Identifier: Apache-2.0
// Checks tensors for NaN and Inf.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/dtype.h"

namespace sluice {

// Whether no value is NaN or Inf; `dtype` is f32, f16 or bf16. Tests exponent bits only, so that -ffast-math cannot
// change the result.
bool all_finite(std::span<const std::byte> bytes, DType dtype);

}  // namespace sluice
