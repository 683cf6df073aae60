// SPDX-License-Identifier: Apache-2.0
#include "cli/dtype_option.h"

#include <fmt/format.h>

#include "base/error.h"

namespace sluice {

DType parse_dtype_option(const std::string& text) {
  if (text == "bf16") return DType::kBF16;
  if (text == "f32") return DType::kF32;
  throw InvalidInput(fmt::format("--dtype is '{}'; it can be bf16 or f32", text));
}

}  // namespace sluice
