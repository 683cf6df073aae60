// SPDX-License-Identifier: Apache-2.0
// A typed, shaped look at memory that somebody else owns, on whatever device that memory is. Dense, row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace sluice {

class TensorView {
 public:
  TensorView() = default;
  // `memory` holds at least the tensor's bytes.
  TensorView(std::span<std::byte> memory, DType dtype, Shape shape);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::span<std::byte> bytes() const { return memory_; }

  // The elements as T; a bug if T is not as wide as the dtype.
  template <typename T>
  std::span<T> as() const {
    require_element(sizeof(T), alignof(T));
    return {reinterpret_cast<T*>(memory_.data()), memory_.size() / sizeof(T)};
  }

  // Rows [first, first + count) of the first dimension.
  TensorView rows(std::int64_t first, std::int64_t count) const;

 private:
  void require_element(std::size_t size_bytes, std::size_t alignment) const;

  std::span<std::byte> memory_;
  DType dtype_ = DType::kU8;
  Shape shape_;
};

}  // namespace sluice
