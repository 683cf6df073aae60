// SPDX-License-Identifier: Apache-2.0
// Memory for one pass through a slice, handed out front to back and taken back all at once. Without memory it only
// counts, so that the code that uses a workspace also says how large it must be. For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/units.h"
#include "tensor/tensor_view.h"

namespace sluice {

class Workspace {
 public:
  Workspace() = default;  // counts
  explicit Workspace(std::span<std::byte> memory) : memory_(memory), counting_(false) {}

  // In a counting workspace, a view that must not be used.
  TensorView take(DType dtype, const Shape& shape) {
    const std::uint64_t bytes = size_bytes(dtype) * static_cast<std::uint64_t>(shape.num_elements());
    const std::uint64_t at = used_bytes_;
    used_bytes_ += round_up(bytes, kAlignment);
    if (counting_) return {};
    CHECK(used_bytes_ <= memory_.size(), "the workspace was made for this");
    return {memory_.subspan(at, bytes), dtype, shape};
  }

  std::uint64_t used_bytes() const { return used_bytes_; }
  bool counting() const { return counting_; }

 private:
  static constexpr std::uint64_t kAlignment = 64;

  std::span<std::byte> memory_;
  std::uint64_t used_bytes_ = 0;
  bool counting_ = true;
};

}  // namespace sluice
