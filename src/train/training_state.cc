// SPDX-License-Identifier: Apache-2.0
#include "train/training_state.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/page_memory.h"
#include "base/units.h"
#include "device/cpu/cpu_device.h"
#include "model/adapter_layout.h"
#include "model/adapter_sites.h"
#include "model/packed_block.h"
#include "plan/step_memory.h"
#include "train/state_keys.h"

namespace sluice {
namespace {

// Slices on their way from a checkpoint to where they are kept.
class Filler {
 public:
  Filler(const WeightKeeping& state, const CheckpointSlices& checkpoint) : state_(state), checkpoint_(checkpoint) {
    std::uint64_t largest = 0;
    for (std::size_t slice_idx = 0; slice_idx < num_slices(*state.arch); ++slice_idx) {
      largest = std::max(largest, weight_bytes(*state.arch, *state.schedule, slice_idx));
    }
    kept_ = PageMemory(round_up(largest, kBlockBytes));
    const std::uint64_t block_bytes = unpacked_bytes(*state.arch, *state.schedule);
    if (block_bytes == 0 || checkpoint.has_packed_blocks()) return;
    slice_ = PageMemory(round_up(block_bytes, kBlockBytes));
    cpu_.emplace(Device::kAlignment, state.num_threads);
    stream_ = cpu_->make_stream("packing");
  }

  void fill(std::size_t slice_idx) {
    const std::string key = weights_key(*state_.arch, slice_idx);
    const Home home = state_.keeper->home(key);
    if (home == Home::kHost) {
      read(slice_idx, state_.keeper->bytes(key));
      return;
    }
    const std::uint64_t bytes = weight_bytes(*state_.arch, *state_.schedule, slice_idx);
    const std::span<std::byte> kept = kept_.bytes().first(round_up(bytes, kBlockBytes));
    read(slice_idx, kept.first(bytes));
    if (home == Home::kDevice) {
      state_.keeper->fill(key, kept.first(bytes));
      return;
    }
    std::memset(kept.data() + bytes, 0, kept.size() - bytes);
    SliceWriter writer = state_.keeper->begin(key);
    writer.write(0, kept).wait();
    state_.keeper->replace(key, std::move(writer));
  }

 private:
  // As it is kept.
  void read(std::size_t slice_idx, std::span<std::byte> into) {
    const DType dtype = state_.schedule->dtype;
    if (!is_packed(*state_.arch, slice_idx)) {
      checkpoint_.read(slice_idx, dtype, into);
      return;
    }
    if (checkpoint_.has_packed_blocks()) {
      checkpoint_.read_packed(slice_idx, PackedBlock(*state_.arch, dtype), dtype, into);
      return;
    }
    checkpoint_.read(slice_idx, dtype, slice_.bytes());
    std::memset(into.data(), 0, into.size());
    PackedBlock(*state_.arch, dtype).pack(*stream_, slice_.bytes(), into);
    stream_->synchronize();
  }

  const WeightKeeping& state_;
  const CheckpointSlices& checkpoint_;
  PageMemory kept_;   // whole blocks, as the drives want it
  PageMemory slice_;  // of a block that is packed on the way
  std::optional<CpuDevice> cpu_;
  std::unique_ptr<Stream> stream_;
};

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
  Filler filler(state, checkpoint);
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    filler.fill(slice_idx);
    if (adapter_bytes(arch, slice_idx) > 0) {
      std::vector<std::byte> adapter(adapter_bytes(arch, slice_idx));
      init_adapter(arch, slice_idx, state.adapter_seed, adapter);
      state.keeper->fill(adapter_key(arch, slice_idx), adapter);
    }
    if (done) done(slice_idx);
  }
}

void refill_weights(const WeightKeeping& state, const CheckpointSlices& checkpoint) {
  CHECK(state.arch->adapter.exists(), "weights that are not trained");
  Filler filler(state, checkpoint);
  for (std::size_t slice_idx = 0; slice_idx < num_slices(*state.arch); ++slice_idx) {
    const std::string key = weights_key(*state.arch, slice_idx);
    const bool stored = state.keeper->home(key) == Home::kNvme && state.keeper->version(key) != nullptr;
    if (!stored) filler.fill(slice_idx);
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
    state.keeper->fetch(key, into.first(bytes));
    return;
  }
  const SliceRef version = state.keeper->version(key);
  const std::span<std::byte> stored = into.first(version->stored_bytes());
  state.store->read(*version, 0, stored).wait();
  state.store->verify(*version, 0, stored);
}

}  // namespace sluice
