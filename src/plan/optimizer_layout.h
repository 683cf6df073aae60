// SPDX-License-Identifier: Apache-2.0
// How a slice's optimizer state lies in its one run: in windows of a fixed number of elements, so that an update reads
// and writes whole windows one after the other, wherever the run lives.
//
//   window 0: [ trailing bits | m | v ] padding   window 1: …       weights and gradients are runs of their own
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/units.h"
#include "tensor/dtype.h"
#include "tensor/tensor_view.h"

namespace sluice {

class OptimizerLayout {
 public:
  // chunk_bytes: what a store reads and writes at once; 4 KiB or more.
  OptimizerLayout(DType weights, std::uint64_t chunk_bytes, std::uint64_t num_elements)
      : weights_(weights),
        num_elements_(num_elements),
        window_elements_(std::min(most_elements(chunk_bytes), round_up(num_elements, least_elements(chunk_bytes)))),
        stride_bytes_(round_up(part_bytes(window_elements_), chunk_bytes)) {}

  // Of the largest windows there are.
  static OptimizerLayout largest(DType weights, std::uint64_t chunk_bytes) {
    return {weights, chunk_bytes, most_elements(chunk_bytes)};
  }

  std::uint64_t window_elements() const { return window_elements_; }
  std::uint64_t stride_bytes() const { return stride_bytes_; }  // from window to window
  std::uint64_t run_bytes() const { return div_ceil(num_elements_, window_elements_) * stride_bytes_; }

  // Elements [first, first + count) of a window.
  struct Views {
    TensorView trailing;  // none for f32 weights
    TensorView m, v;
  };
  Views view(std::span<std::byte> window, std::uint64_t first, std::uint64_t count) const {
    const auto cut = [&](std::uint64_t offset, DType dtype) {
      const std::uint64_t bytes = size_bytes(dtype);
      return TensorView(window.subspan(offset + first * bytes, count * bytes), dtype,
                        {static_cast<std::int64_t>(count)});
    };
    const std::uint64_t trailing = trailing_bytes(window_elements_);
    Views views;
    views.m = cut(trailing, DType::kF32);
    views.v = cut(trailing + window_elements_ * sizeof(float), DType::kF32);
    if (trailing > 0) views.trailing = cut(0, DType::kBF16);
    return views;
  }

 private:
  // Windows of weights, the narrowest run, are whole chunks.
  static std::uint64_t least_elements(std::uint64_t chunk_bytes) { return chunk_bytes / size_bytes(DType::kBF16); }
  static std::uint64_t most_elements(std::uint64_t chunk_bytes) {
    return round_up(256 * kKiB, least_elements(chunk_bytes));
  }

  std::uint64_t trailing_bytes(std::uint64_t count) const {
    return weights_ == DType::kBF16 ? count * sizeof(std::uint16_t) : 0;
  }
  std::uint64_t part_bytes(std::uint64_t count) const { return trailing_bytes(count) + 2 * count * sizeof(float); }

  DType weights_;
  std::uint64_t num_elements_;
  std::uint64_t window_elements_;
  std::uint64_t stride_bytes_;
};

}  // namespace sluice
