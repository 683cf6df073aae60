// SPDX-License-Identifier: Apache-2.0
#include "tensor/shape.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/check.h"

namespace sluice {

Shape::Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(dims.size()) {
  CHECK(dims.size() <= kMaxRank, "a tensor has at most five dimensions");
  for (const std::int64_t dim : dims) CHECK(dim >= 0, "a dimension is not negative");
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

std::int64_t Shape::operator[](std::size_t dim_idx) const {
  CHECK(dim_idx < rank_, "the dimension exists");
  return dims_[dim_idx];
}

std::int64_t Shape::num_elements() const {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims()) {
    CHECK(!__builtin_mul_overflow(count, dim, &count), "a tensor's elements can be counted");
  }
  return count;
}

std::string Shape::text() const {
  std::string text = "(";
  for (std::size_t i = 0; i < rank_; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", dims_[i]);
  return text + ")";
}

}  // namespace sluice
