// SPDX-License-Identifier: Apache-2.0
// Element types as data. Names are those of safetensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

enum class DType : std::uint8_t { kF32, kF16, kBF16, kF8E4M3, kI32, kI64, kU8, kI8 };

std::uint64_t size_bytes(DType dtype);  // of one element
std::string_view name(DType dtype);     // "BF16"
std::optional<DType> parse_dtype(std::string_view name);

}  // namespace sluice
