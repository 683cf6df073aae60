// SPDX-License-Identifier: Apache-2.0
// How GGUF keeps the elements of a tensor: floats of 32 and 16 bits, and Q8_0, which is blocks of 32 elements of a row
// as one half-precision scale and 32 whole numbers. The bytes are those of ggml's reference. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sluice {

// The numbers are ggml's.
enum class GgufEncoding : std::uint32_t { kF32 = 0, kF16 = 1, kQ8 = 8, kBF16 = 30 };

inline constexpr std::uint64_t kQ8BlockElements = 32;

std::optional<GgufEncoding> parse_gguf_encoding(std::string_view name);  // "bf16", "f16", "f32", "q8_0"

// A multiple of the block for kQ8.
std::uint64_t encoded_bytes(GgufEncoding encoding, std::uint64_t num_elements);

enum class Encoded : std::uint8_t {
  kAll,
  kNotHeld,  // a finite value is too large for the encoding, or one that is not finite has no place in it
};

Encoded encode_elements(std::span<std::byte> to, GgufEncoding encoding, std::span<const float> values);

}  // namespace sluice
