// SPDX-License-Identifier: Apache-2.0
#include "model/own_head.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "model/convert.h"

namespace sluice {
namespace {

constexpr std::size_t kComparedElements = kMiB;

// Elements of a tensor, piece by piece.
class Elements {
 public:
  Elements(const Checkpoint& checkpoint, const TensorInfo& tensor, DType dtype)
      : checkpoint_(checkpoint), tensor_(tensor), dtype_(dtype), stored_(kComparedElements * size_bytes(dtype)) {}

  std::span<const std::byte> read(std::uint64_t first, std::size_t count) {
    const std::span<std::byte> stored = std::span(stored_).first(count * size_bytes(dtype_));
    checkpoint_.read(tensor_, first * size_bytes(dtype_), stored);
    return stored;
  }
  // What was read, as f32.
  std::span<const float> values(std::size_t count) {
    convert_elements(std::as_writable_bytes(std::span(values_).first(count)), DType::kF32,
                     std::span(stored_).first(count * size_bytes(dtype_)), dtype_);
    return std::span(values_).first(count);
  }

 private:
  const Checkpoint& checkpoint_;
  const TensorInfo& tensor_;
  DType dtype_;
  std::vector<std::byte> stored_;
  std::vector<float> values_ = std::vector<float>(kComparedElements);
};

// The same bits, or the same numbers: one of them may have been written in a wider type.
bool is_same(const Checkpoint& checkpoint, const TensorInfo& a, const TensorInfo& b) {
  if (a.shape != b.shape) return false;
  const DType dtype_a = checkpoint.require_dtype(a);
  const DType dtype_b = checkpoint.require_dtype(b);
  if (!can_convert(DType::kF32, dtype_a) || !can_convert(DType::kF32, dtype_b)) return false;
  Elements of_a(checkpoint, a, dtype_a);
  Elements of_b(checkpoint, b, dtype_b);
  const std::uint64_t total = a.size_bytes / size_bytes(dtype_a);
  for (std::uint64_t at = 0; at < total; at += kComparedElements) {
    const std::size_t count = std::min<std::uint64_t>(kComparedElements, total - at);
    if (std::ranges::equal(of_a.read(at, count), of_b.read(at, count)) && dtype_a == dtype_b) continue;
    if (!std::ranges::equal(of_a.values(count), of_b.values(count))) return false;
  }
  return true;
}

}  // namespace

ModelDescription with_own_head(ModelDescription model, const Checkpoint& checkpoint) {
  if (!model.arch.tied_head) return model;
  const TensorInfo* const embedding = checkpoint.find(model.names.embedding + ".weight");
  const TensorInfo* const head = checkpoint.find(model.names.head + ".weight");
  if (embedding != nullptr && head != nullptr) model.arch.tied_head = is_same(checkpoint, *embedding, *head);
  return model;
}

}  // namespace sluice
