// SPDX-License-Identifier: Apache-2.0
#include "tensor/finite_numbers.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace sluice {
namespace {

template <typename Bits>
bool all_below(std::span<const std::byte> bytes, Bits exponent) {
  for (std::size_t at = 0; at + sizeof(Bits) <= bytes.size(); at += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, bytes.data() + at, sizeof(Bits));
    if ((bits & exponent) == exponent) return false;
  }
  return true;
}

}  // namespace

bool all_finite(std::span<const std::byte> bytes, DType dtype) {
  CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16,
        "the dtype is none of f32, bf16 and f16");
  if (dtype == DType::kF16) return all_below<std::uint16_t>(bytes, 0x7C00U);
  if (dtype == DType::kF32) return all_below<std::uint32_t>(bytes, 0x7F800000U);
  return all_below<std::uint16_t>(bytes, 0x7F80U);
}

}  // namespace sluice
