// SPDX-License-Identifier: Apache-2.0
// One batch through the whole model and back: the loss, and every slice's gradients as its backward ends. Keeps each
// block's input on the device and recomputes the rest. Gradients come in the order head, last block … first block,
// embedding; a tied head's share of the embedding is in the embedding's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "device/device.h"
#include "model/batch.h"
#include "model/slice_source.h"

namespace sluice {

struct TrainingPass {
  Device* device = nullptr;
  Stream* stream = nullptr;
  const Architecture* arch = nullptr;
  SliceSource* slices = nullptr;
};

// f32, laid out as the slice, in device memory that is used again once this returns; the stream has passed.
using TakeGradients = std::function<void(std::size_t slice_idx, std::span<std::byte> gradients)>;

// The mean loss over the batch's labels. Throws OutOfBudget where the device has no room for the pass, InvalidInput
// where the batch has no label.
double run_training_pass(const TrainingPass& pass, const Batch& batch, const TakeGradients& take_gradients);

}  // namespace sluice
