// SPDX-License-Identifier: Apache-2.0
#include "tensor/tensor_view.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace sluice {

TensorView::TensorView(std::span<std::byte> memory, DType dtype, Shape shape) : dtype_(dtype), shape_(shape) {
  const std::uint64_t needed = static_cast<std::uint64_t>(shape.num_elements()) * size_bytes(dtype);
  CHECK(needed <= memory.size(), "the memory holds the tensor");
  memory_ = memory.first(needed);
}

TensorView TensorView::rows(std::int64_t first, std::int64_t count) const {
  CHECK(shape_.rank() >= 1 && first >= 0 && count >= 0 && first + count <= shape_[0], "the rows exist");
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  std::copy(shape_.dims().begin(), shape_.dims().end(), dims.begin());
  const std::uint64_t row_bytes = shape_[0] == 0 ? 0 : memory_.size() / static_cast<std::uint64_t>(shape_[0]);
  dims[0] = count;
  return {memory_.subspan(static_cast<std::uint64_t>(first) * row_bytes), dtype_,
          Shape(std::span<const std::int64_t>(dims.data(), shape_.rank()))};
}

void TensorView::require_element(std::size_t element_bytes, std::size_t alignment) const {
  CHECK(element_bytes == size_bytes(dtype_), "the element is as wide as the dtype");
  CHECK(reinterpret_cast<std::uintptr_t>(memory_.data()) % alignment == 0, "the memory is aligned for the element");
}

}  // namespace sluice
