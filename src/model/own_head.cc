// SPDX-License-Identifier: Apache-2.0
#include "model/own_head.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/units.h"

namespace sluice {
namespace {

constexpr std::uint64_t kPieceBytes = 4 * kMiB;

bool is_same(const Checkpoint& checkpoint, const TensorInfo& a, const TensorInfo& b) {
  if (a.dtype_text != b.dtype_text || a.shape != b.shape) return false;
  const std::uint64_t total_bytes = a.size_bytes;
  std::vector<std::byte> of_a(std::min(kPieceBytes, total_bytes));
  std::vector<std::byte> of_b(of_a.size());
  for (std::uint64_t at = 0; at < total_bytes; at += kPieceBytes) {
    const std::uint64_t count = std::min(kPieceBytes, total_bytes - at);
    checkpoint.read(a, at, std::span(of_a).first(count));
    checkpoint.read(b, at, std::span(of_b).first(count));
    if (std::memcmp(of_a.data(), of_b.data(), count) != 0) return false;
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
