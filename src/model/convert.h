// SPDX-License-Identifier: Apache-2.0
// Elements of one float type as another, rounded to nearest even. On the host; for checkpoints on their way.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/dtype.h"

namespace sluice {

// Between f32, bf16 and f16; as many elements on both sides. False where there is no such conversion.
bool convert_elements(std::span<std::byte> to, DType to_dtype, std::span<const std::byte> from, DType from_dtype);
bool can_convert(DType to_dtype, DType from_dtype);

}  // namespace sluice
