// SPDX-License-Identifier: Apache-2.0
// Whether all numbers of a tensor are finite: neither infinite nor "not a number".
#pragma once

#include <cstddef>
#include <span>

#include "tensor/dtype.h"

namespace sluice {

// Of f32, f16 or bf16. Looks at exponents alone, so that no compiler setting can change the answer.
bool all_finite(std::span<const std::byte> bytes, DType dtype);

}  // namespace sluice
