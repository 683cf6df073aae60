// SPDX-License-Identifier: Apache-2.0
// Floats as IEEE halves; the way back is beside the type, in base/bf16.h.
#pragma once

#include <bit>
#include <cstdint>

#include "base/bf16.h"

namespace sluice {

// Rounds to nearest, ties to even; infinite where it is too large, NaN stays NaN.
inline F16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const auto with_sign = [sign](std::uint32_t half) { return F16{static_cast<std::uint16_t>(sign | half)}; };
  if (magnitude > 0x7F800000U) return with_sign(0x7E00U);
  if (magnitude >= 0x477FF000U) return with_sign(0x7C00U);  // from 65520 on, half way to what a half cannot hold
  if (magnitude < 0x38800000U) {
    // Subnormal halves are steps of 2^-24, and so are the floats from 0.5 on: adding 0.5 rounds to them.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return with_sign(std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return with_sign((rounded - 0x38000000U) >> 13);
}

}  // namespace sluice
