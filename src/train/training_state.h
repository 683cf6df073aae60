// SPDX-License-Identifier: Apache-2.0
// A model's weights as a training run keeps them: where they come from, and where they go when they are exported. One
// slice at a time is in memory beside what the keeper holds. Beside adapters, weights are only read: no commit writes
// them again, and those that live in memory come from the checkpoint when a run goes on.
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
  std::uint64_t adapter_seed = 0;
  std::size_t num_threads = 1;  // that pack blocks on their way in
};

// Gives every slice's weights and adapter their home.
void add_weights(const WeightKeeping& state);
// Fills weights from a checkpoint, slice by slice, and begins adapters; `done` is told of each slice.
void fill_weights(const WeightKeeping& state, const CheckpointSlices& checkpoint,
                  const std::function<void(std::size_t slice_idx)>& done);
// Of a run that goes on with adapters: fills the weights that no commit has.
void refill_weights(const WeightKeeping& state, const CheckpointSlices& checkpoint);

// What is trained of a slice, in bytes and as it is, into host memory that holds whole blocks.
std::uint64_t trained_bytes(const WeightKeeping& state, std::size_t slice_idx);
void read_trained(const WeightKeeping& state, std::size_t slice_idx, std::span<std::byte> into);

}  // namespace sluice
