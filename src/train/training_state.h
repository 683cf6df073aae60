// SPDX-License-Identifier: Apache-2.0
// A model's weights as a training run keeps them: where they come from, and where they go when they are exported. One
// slice at a time is in memory beside what the keeper holds.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "model/checkpoint_slices.h"
#include "plan/schedule.h"
#include "tier/run_keeper.h"

namespace sluice {

struct WeightKeeping {
  RunKeeper* keeper = nullptr;
  SliceStore* store = nullptr;  // null where nothing lives on the drives
  const Architecture* arch = nullptr;
  const Schedule* schedule = nullptr;
};

// Gives every slice's weights their home.
void add_weights(const WeightKeeping& state);
// Fills them from a checkpoint, slice by slice; `done` is told of each.
void fill_weights(const WeightKeeping& state, const CheckpointSlices& checkpoint,
                  const std::function<void(std::size_t slice_idx)>& done);
// A slice's weights as they are, into host memory.
void read_weights(const WeightKeeping& state, std::size_t slice_idx, std::span<std::byte> into);

}  // namespace sluice
