// SPDX-License-Identifier: Apache-2.0
// The extents of a tensor, at most kMaxRank of them, as a small value. Dimensions are row-major: the last is dense.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace sluice {

class Shape {
 public:
  static constexpr std::size_t kMaxRank = 5;

  Shape() = default;  // a scalar
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t dim_idx) const;
  std::span<const std::int64_t> dims() const { return {dims_.data(), rank_}; }
  std::int64_t num_elements() const;
  std::string text() const;  // "(2, 3)"

  bool operator==(const Shape& other) const = default;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};  // 0 beyond the rank
  std::size_t rank_ = 0;
};

}  // namespace sluice
