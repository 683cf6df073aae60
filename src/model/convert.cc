// SPDX-License-Identifier: Apache-2.0
#include "model/convert.h"

#include <cstring>

#include "base/bf16.h"
#include "base/check.h"
#include "base/f16.h"

namespace sluice {
namespace {

float widen(float value) { return value; }
float widen(BF16 value) { return to_float(value); }
float widen(F16 value) { return to_float(value); }

void narrow(float value, float& to) { to = value; }
void narrow(float value, BF16& to) { to = to_bf16(value); }
void narrow(float value, F16& to) { to = to_f16(value); }

template <typename To, typename From>
void convert(std::span<std::byte> to, std::span<const std::byte> from) {
  const std::size_t count = from.size() / sizeof(From);
  CHECK(to.size() == count * sizeof(To), "as many elements on both sides");
  for (std::size_t idx = 0; idx < count; ++idx) {
    From value;
    std::memcpy(&value, from.data() + idx * sizeof(From), sizeof value);
    To result;
    narrow(widen(value), result);
    std::memcpy(to.data() + idx * sizeof(To), &result, sizeof result);
  }
}

template <typename To>
void convert_to(std::span<std::byte> to, std::span<const std::byte> from, DType from_dtype) {
  if (from_dtype == DType::kF32) return convert<To, float>(to, from);
  if (from_dtype == DType::kBF16) return convert<To, BF16>(to, from);
  convert<To, F16>(to, from);
}

}  // namespace

bool can_convert(DType to_dtype, DType from_dtype) {
  const auto is_known = [](DType dtype) {
    return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
  };
  return is_known(to_dtype) && is_known(from_dtype);
}

bool convert_elements(std::span<std::byte> to, DType to_dtype, std::span<const std::byte> from, DType from_dtype) {
  if (!can_convert(to_dtype, from_dtype)) return false;
  if (to_dtype == from_dtype) {
    CHECK(to.size() == from.size(), "as many elements on both sides");
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
  } else if (to_dtype == DType::kF32) {
    convert_to<float>(to, from, from_dtype);
  } else if (to_dtype == DType::kF16) {
    convert_to<F16>(to, from, from_dtype);
  } else {
    convert_to<BF16>(to, from, from_dtype);
  }
  return true;
}

}  // namespace sluice
