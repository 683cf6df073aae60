// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

#include <array>

#include "base/check.h"

namespace sluice {
namespace {

struct Entry {
  DType dtype;
  std::uint64_t size_bytes;
  std::string_view name;
};

constexpr std::array<Entry, 8> kEntries{{
    {DType::kF32, 4, "F32"},
    {DType::kF16, 2, "F16"},
    {DType::kBF16, 2, "BF16"},
    {DType::kF8E4M3, 1, "F8_E4M3"},
    {DType::kI32, 4, "I32"},
    {DType::kI64, 8, "I64"},
    {DType::kU8, 1, "U8"},
    {DType::kI8, 1, "I8"},
}};

const Entry& entry(DType dtype) {
  for (const Entry& candidate : kEntries) {
    if (candidate.dtype == dtype) return candidate;
  }
  check_failed(__FILE__, __LINE__, "dtype", "every dtype has an entry");
}

}  // namespace

std::uint64_t size_bytes(DType dtype) { return entry(dtype).size_bytes; }

std::string_view name(DType dtype) { return entry(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Entry& candidate : kEntries) {
    if (candidate.name == name) return candidate.dtype;
  }
  return std::nullopt;
}

}  // namespace sluice
