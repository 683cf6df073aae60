// SPDX-License-Identifier: Apache-2.0
#include "format/gguf_encoding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "base/check.h"
#include "base/f16.h"

namespace sluice {
namespace {

constexpr std::size_t kQ8BlockBytes = sizeof(F16) + kQ8BlockElements;

template <typename Element>
void put(std::span<std::byte> to, std::size_t idx, Element element) {
  std::memcpy(to.data() + idx * sizeof element, &element, sizeof element);
}

Encoded encode_halves(std::span<std::byte> to, std::span<const float> values) {
  Encoded result = Encoded::kAll;
  for (std::size_t idx = 0; idx < values.size(); ++idx) {
    const F16 half = to_f16(values[idx]);
    if (std::isfinite(values[idx]) && !std::isfinite(to_float(half))) result = Encoded::kNotHeld;
    put(to, idx, half);
  }
  return result;
}

// The scale is the largest magnitude over 127; values are divided by it before it is rounded to a half.
Encoded encode_q8_block(std::span<std::byte> to, std::span<const float> values) {
  float largest = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return Encoded::kNotHeld;
    largest = std::max(largest, std::fabs(value));
  }
  const float scale = largest / 127.0F;
  const float inverse = scale != 0 ? 1.0F / scale : 0.0F;
  const F16 half = to_f16(scale);
  if (!std::isfinite(to_float(half)) || !std::isfinite(inverse)) {
    // A scale so small that its inverse is infinite is zero as a half, and so is the block.
    if (!std::isfinite(to_float(half))) return Encoded::kNotHeld;
    std::memset(to.data(), 0, to.size());
    return Encoded::kAll;
  }
  std::memcpy(to.data(), &half, sizeof half);
  for (std::size_t idx = 0; idx < values.size(); ++idx) {
    const float rounded = std::clamp(std::round(values[idx] * inverse), -127.0F, 127.0F);
    to[sizeof half + idx] = static_cast<std::byte>(static_cast<std::int8_t>(rounded));
  }
  return Encoded::kAll;
}

}  // namespace

std::optional<GgufEncoding> parse_gguf_encoding(std::string_view name) {
  if (name == "f32") return GgufEncoding::kF32;
  if (name == "f16") return GgufEncoding::kF16;
  if (name == "bf16") return GgufEncoding::kBF16;
  if (name == "q8_0") return GgufEncoding::kQ8;
  return std::nullopt;
}

std::uint64_t encoded_bytes(GgufEncoding encoding, std::uint64_t num_elements) {
  switch (encoding) {
    case GgufEncoding::kF32:
      return num_elements * sizeof(float);
    case GgufEncoding::kF16:
      return num_elements * sizeof(F16);
    case GgufEncoding::kBF16:
      return num_elements * sizeof(BF16);
    case GgufEncoding::kQ8:
      break;
  }
  CHECK(num_elements % kQ8BlockElements == 0, "Q8_0 has whole blocks");
  return num_elements / kQ8BlockElements * kQ8BlockBytes;
}

Encoded encode_elements(std::span<std::byte> to, GgufEncoding encoding, std::span<const float> values) {
  CHECK(to.size() == encoded_bytes(encoding, values.size()), "as many elements on both sides");
  switch (encoding) {
    case GgufEncoding::kF32:
      if (!values.empty()) std::memcpy(to.data(), values.data(), values.size_bytes());
      return Encoded::kAll;
    case GgufEncoding::kBF16:
      for (std::size_t idx = 0; idx < values.size(); ++idx) put(to, idx, to_bf16(values[idx]));
      return Encoded::kAll;
    case GgufEncoding::kF16:
      return encode_halves(to, values);
    case GgufEncoding::kQ8:
      break;
  }
  Encoded result = Encoded::kAll;
  for (std::size_t block = 0; block < values.size() / kQ8BlockElements; ++block) {
    if (encode_q8_block(to.subspan(block * kQ8BlockBytes, kQ8BlockBytes),
                        values.subspan(block * kQ8BlockElements, kQ8BlockElements)) == Encoded::kNotHeld) {
      result = Encoded::kNotHeld;
    }
  }
  return result;
}

}  // namespace sluice
