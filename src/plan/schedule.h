// SPDX-License-Identifier: Apache-2.0
// What a training step does with memory: the decisions that a plan makes and the trainer carries out. But for dtype,
// optimizer and device, which are asked for, none of them changes a number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.h"
#include "plan/optimizer_state.h"
#include "tensor/dtype.h"
#include "tier/run_keeper.h"

namespace sluice {

// Where a slice's state lives between uses.
struct SliceHomes {
  Home weights = Home::kHost;
  Home optimizer = Home::kHost;  // moments, and the bits that trail bf16 weights
  Home gradients = Home::kHost;  // f32, of the step under way
};

struct Schedule {
  DType dtype = DType::kBF16;  // of weights and activations
  OptimizerState optimizer = OptimizerState::kAdamWF32;
  std::int64_t wave = 1;            // micro-batches that pass a group before the next group is touched
  bool is_one_wave = false;         // every step is: nothing is kept from wave to wave
  std::int64_t group = 1;           // blocks
  std::int64_t batch_tokens = 0;    // of a micro-batch, at most
  std::size_t weight_places = 2;    // device memory for slices on their way; at least a group
  std::size_t gradient_places = 2;  // the same for gradients
  Home boundaries = Home::kDevice;  // blocks' inputs, between forward and backward
  std::size_t boundary_places = 2;  // device memory for boundaries on their way, where they live elsewhere
  std::int64_t stored_layers = 0;   // the last so many keep their intermediates on the device; others recompute them
  std::int64_t kept_attention = 0;  // the last so many layers' attention waits with their boundaries, where those leave
  std::vector<SliceHomes> homes;    // one a slice
  DeviceKind device = DeviceKind::kCpu;
};

}  // namespace sluice
