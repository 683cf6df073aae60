// SPDX-License-Identifier: Apache-2.0
#include "train/training_state.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/page_memory.h"
#include "base/units.h"
#include "plan/step_memory.h"
#include "train/state_keys.h"

namespace sluice {
namespace {

// As the drives want it: whole blocks.
PageMemory memory_for_largest(const WeightKeeping& state) {
  std::uint64_t largest = 0;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(*state.arch); ++slice_idx) {
    largest = std::max(largest, weight_bytes(*state.arch, *state.schedule, slice_idx));
  }
  return PageMemory(round_up(largest, kBlockBytes));
}

}  // namespace

void add_weights(const WeightKeeping& state) {
  for (std::size_t slice_idx = 0; slice_idx < num_slices(*state.arch); ++slice_idx) {
    state.keeper->add(weights_key(*state.arch, slice_idx), weight_bytes(*state.arch, *state.schedule, slice_idx),
                      state.schedule->homes[slice_idx].weights, Lifetime::kDurable);
  }
}

void fill_weights(const WeightKeeping& state, const CheckpointSlices& checkpoint,
                  const std::function<void(std::size_t slice_idx)>& done) {
  const PageMemory memory = memory_for_largest(state);
  for (std::size_t slice_idx = 0; slice_idx < num_slices(*state.arch); ++slice_idx) {
    const std::string key = weights_key(*state.arch, slice_idx);
    if (state.keeper->home(key) != Home::kNvme) {
      checkpoint.read(slice_idx, state.schedule->dtype, state.keeper->bytes(key));
    } else {
      const std::uint64_t bytes = weight_bytes(*state.arch, *state.schedule, slice_idx);
      const std::span<std::byte> slice = memory.bytes().first(round_up(bytes, kBlockBytes));
      checkpoint.read(slice_idx, state.schedule->dtype, slice.first(bytes));
      std::memset(slice.data() + bytes, 0, slice.size() - bytes);
      SliceWriter writer = state.keeper->begin(key);
      writer.write(0, slice).wait();
      state.keeper->replace(key, std::move(writer));
    }
    if (done) done(slice_idx);
  }
}

void read_weights(const WeightKeeping& state, std::size_t slice_idx, std::span<std::byte> into) {
  const std::string key = weights_key(*state.arch, slice_idx);
  const std::uint64_t bytes = weight_bytes(*state.arch, *state.schedule, slice_idx);
  CHECK(into.size() >= round_up(bytes, kBlockBytes), "room for the slice as the drives have it");
  if (state.keeper->home(key) != Home::kNvme) {
    std::memcpy(into.data(), state.keeper->bytes(key).data(), bytes);
    return;
  }
  const SliceRef version = state.keeper->version(key);
  const std::span<std::byte> stored = into.first(version->stored_bytes());
  state.store->read(*version, 0, stored).wait();
  state.store->verify(*version, 0, stored);
}

}  // namespace sluice
