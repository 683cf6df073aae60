// SPDX-License-Identifier: Apache-2.0
// The arithmetic of an update, on windows of slices whose weights, gradients and state are at hand: AdamW or SGD, on
// the stream's device. Puts work on the stream and returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/device.h"
#include "model/slice_layout.h"
#include "ops/adamw.h"
#include "plan/optimizer_layout.h"
#include "plan/optimizer_state.h"

namespace sluice {

struct UpdateRule {
  AdamWSettings adam;  // SGD has its rate, its decay and its scale from here
  OptimizerState optimizer = OptimizerState::kAdamWF32;
  DType dtype = DType::kBF16;  // of what is trained
  double momentum = 0;         // of SGD
  std::uint64_t seed = 0;      // of what is rounded stochastically
};

// Elements [first, first + count) of a slice.
struct UpdateWindow {
  std::size_t slice_idx = 0;
  const SliceLayout* layout = nullptr;
  const OptimizerLayout* state = nullptr;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::span<std::byte> weights, optimizer, gradients;
  DType gradient_dtype = DType::kF32;
};

void update_windows(Stream& stream, const UpdateRule& rule, std::span<const UpdateWindow> windows);

}  // namespace sluice
