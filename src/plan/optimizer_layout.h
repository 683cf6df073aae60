// SPDX-License-Identifier: Apache-2.0
// How a slice's optimizer state lies in its one run: in windows of a fixed number of elements, so that an update reads
// and writes whole windows one after the other, wherever the run lives. Windows are whole blocks of 8-bit moments.
//
//   window 0: [ trailing bits | m | v | scales of m | of v ] padding   window 1: …     weights, gradients: other runs
//
// What a state does not have takes no room; a velocity lies where m does. SGD of f32 weights keeps nothing at all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/units.h"
#include "plan/optimizer_state.h"
#include "tensor/dtype.h"
#include "tensor/tensor_view.h"

namespace sluice {

class OptimizerLayout {
 public:
  static constexpr std::uint64_t kBlock = 256;  // elements that share a scale: kMomentBlock of ops/adamw.h

  // chunk_bytes: what a store reads and writes at once; 4 KiB or more.
  OptimizerLayout(DType weights, OptimizerState state, std::uint64_t chunk_bytes, std::uint64_t num_elements)
      : weights_(weights),
        state_(state),
        num_elements_(num_elements),
        window_elements_(window_elements_for(state, chunk_bytes, num_elements)),
        stride_bytes_(round_up(part_bytes(window_elements_), chunk_bytes)) {}

  // Of the largest windows there are.
  static OptimizerLayout largest(DType weights, OptimizerState state, std::uint64_t chunk_bytes) {
    return {weights, state, chunk_bytes, most_elements(state, chunk_bytes)};
  }

  std::uint64_t window_elements() const { return window_elements_; }
  std::uint64_t stride_bytes() const { return stride_bytes_; }  // from window to window
  // 0: there is no run.
  std::uint64_t run_bytes() const { return div_ceil(num_elements_, window_elements_) * stride_bytes_; }

  // Elements [first, first + count) of a window; for 8-bit moments, first begins a block.
  struct Views {
    TensorView trailing;            // none for f32 weights
    TensorView m, v;                // none for SGD
    TensorView m_absmax, v_absmax;  // of 8-bit moments alone
    TensorView velocity;            // of momentum alone
  };
  Views view(std::span<std::byte> window, std::uint64_t first, std::uint64_t count) const {
    std::uint64_t part = 0;  // where the next part begins
    const auto cut_blocks = [&](DType dtype, std::uint64_t block) {
      const std::uint64_t bytes = size_bytes(dtype);
      const std::uint64_t num = div_ceil(count, block);
      const TensorView made(window.subspan(part + first / block * bytes, num * bytes), dtype,
                            {static_cast<std::int64_t>(num)});
      part += window_elements_ / block * bytes;
      return made;
    };
    const auto cut = [&](DType dtype) { return cut_blocks(dtype, 1); };
    Views views;
    if (weights_ == DType::kBF16) views.trailing = cut(DType::kBF16);
    switch (state_) {
      case OptimizerState::kAdamWF32:
      case OptimizerState::kAdamWBF16:
      case OptimizerState::kAdamW8Bit:
        views.m = cut(moments());
        views.v = cut(moments());
        if (state_ != OptimizerState::kAdamW8Bit) break;
        views.m_absmax = cut_blocks(DType::kF32, kBlock);
        views.v_absmax = cut_blocks(DType::kF32, kBlock);
        break;
      case OptimizerState::kSgdMomentum:
        views.velocity = cut(DType::kF32);
        break;
      case OptimizerState::kSgd:
        break;
    }
    return views;
  }

 private:
  // Windows of weights, the narrowest run, are whole chunks.
  static std::uint64_t least_elements(std::uint64_t chunk_bytes) { return chunk_bytes / size_bytes(DType::kBF16); }
  // Scales are a little more than fits a whole number of chunks: windows of 8-bit moments are long, lest the padding
  // that follows them be most of what 8 bits save.
  static std::uint64_t most_elements(OptimizerState state, std::uint64_t chunk_bytes) {
    const std::uint64_t least = least_elements(chunk_bytes);
    return std::max(round_up(256 * kKiB, least), state == OptimizerState::kAdamW8Bit ? 4 * least : 0);
  }
  // As few windows as can be, of about the same length.
  static std::uint64_t window_elements_for(OptimizerState state, std::uint64_t chunk_bytes,
                                           std::uint64_t num_elements) {
    const std::uint64_t num_windows = div_ceil(num_elements, most_elements(state, chunk_bytes));
    return round_up(div_ceil(num_elements, num_windows), least_elements(chunk_bytes));
  }

  DType moments() const {
    if (state_ == OptimizerState::kAdamW8Bit) return DType::kU8;
    return state_ == OptimizerState::kAdamWBF16 ? DType::kBF16 : DType::kF32;
  }
  std::uint64_t part_bytes(std::uint64_t count) const {
    const std::uint64_t trailing = weights_ == DType::kBF16 ? count * sizeof(std::uint16_t) : 0;
    switch (state_) {
      case OptimizerState::kSgd:
        return trailing;
      case OptimizerState::kSgdMomentum:
        return trailing + count * sizeof(float);
      default:
        break;
    }
    const std::uint64_t scales = state_ == OptimizerState::kAdamW8Bit ? count / kBlock * sizeof(float) : 0;
    return trailing + 2 * (count * size_bytes(moments()) + scales);
  }

  DType weights_;
  OptimizerState state_;
  std::uint64_t num_elements_;
  std::uint64_t window_elements_;
  std::uint64_t stride_bytes_;
};

}  // namespace sluice
