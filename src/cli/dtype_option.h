// SPDX-License-Identifier: Apache-2.0
// --dtype, as every verb that has it understands it.
#pragma once

#include <string>

#include "tensor/dtype.h"

namespace sluice {

// Throws InvalidInput where it is neither bf16 nor f32.
DType parse_dtype_option(const std::string& text);

}  // namespace sluice
