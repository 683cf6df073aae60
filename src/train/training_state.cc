// SPDX-License-Identifier: Apache-2.0
#include "train/training_state.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/page_memory.h"
#include "base/units.h"
#include "model/adapter_layout.h"
#include "model/adapter_sites.h"
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

void fill_slice(const WeightKeeping& state, const CheckpointSlices& checkpoint, std::size_t slice_idx,
                const PageMemory& memory) {
  const std::string key = weights_key(*state.arch, slice_idx);
  if (state.keeper->home(key) != Home::kNvme) {
    checkpoint.read(slice_idx, state.schedule->dtype, state.keeper->bytes(key));
    return;
  }
  const std::uint64_t bytes = weight_bytes(*state.arch, *state.schedule, slice_idx);
  const std::span<std::byte> slice = memory.bytes().first(round_up(bytes, kBlockBytes));
  checkpoint.read(slice_idx, state.schedule->dtype, slice.first(bytes));
  std::memset(slice.data() + bytes, 0, slice.size() - bytes);
  SliceWriter writer = state.keeper->begin(key);
  writer.write(0, slice).wait();
  state.keeper->replace(key, std::move(writer));
}

}  // namespace

void add_weights(const WeightKeeping& state) {
  const Architecture& arch = *state.arch;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    const Home home = state.schedule->homes[slice_idx].weights;
    const bool in_checkpoint = arch.adapter.exists() && home != Home::kNvme;
    state.keeper->add(weights_key(arch, slice_idx), weight_bytes(arch, *state.schedule, slice_idx), home,
                      in_checkpoint ? Lifetime::kScratch : Lifetime::kDurable);
    const std::uint64_t adapter = adapter_bytes(arch, slice_idx);
    if (adapter > 0) state.keeper->add(adapter_key(arch, slice_idx), adapter, Home::kDevice, Lifetime::kDurable);
  }
}

void fill_weights(const WeightKeeping& state, const CheckpointSlices& checkpoint,
                  const std::function<void(std::size_t slice_idx)>& done) {
  const Architecture& arch = *state.arch;
  const PageMemory memory = memory_for_largest(state);
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    fill_slice(state, checkpoint, slice_idx, memory);
    if (adapter_bytes(arch, slice_idx) > 0) {
      init_adapter(arch, slice_idx, state.adapter_seed, state.keeper->bytes(adapter_key(arch, slice_idx)));
    }
    if (done) done(slice_idx);
  }
}

void refill_weights(const WeightKeeping& state, const CheckpointSlices& checkpoint) {
  CHECK(state.arch->adapter.exists(), "weights that are not trained");
  const PageMemory memory = memory_for_largest(state);
  for (std::size_t slice_idx = 0; slice_idx < num_slices(*state.arch); ++slice_idx) {
    const std::string key = weights_key(*state.arch, slice_idx);
    const bool stored = state.keeper->home(key) == Home::kNvme && state.keeper->version(key) != nullptr;
    if (!stored) fill_slice(state, checkpoint, slice_idx, memory);
  }
}

std::uint64_t trained_bytes(const WeightKeeping& state, std::size_t slice_idx) {
  return trained_layout(*state.arch, slice_idx).size_bytes(trained_dtype(*state.arch, state.schedule->dtype));
}

void read_trained(const WeightKeeping& state, std::size_t slice_idx, std::span<std::byte> into) {
  const std::uint64_t bytes = trained_bytes(state, slice_idx);
  if (bytes == 0) return;
  const std::string key = trained_key(*state.arch, slice_idx);
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
