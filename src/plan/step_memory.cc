// SPDX-License-Identifier: Apache-2.0
#include "plan/step_memory.h"

#include <algorithm>
#include <array>
#include <deque>

#include "device/device.h"
#include "model/adapter_layout.h"
#include "model/batch.h"
#include "model/block.h"
#include "model/model_ends.h"
#include "model/packed_block.h"
#include "model/slice_layout.h"
#include "tier/store_format.h"

namespace sluice {
namespace {

constexpr std::size_t kSmallGradientPlaces = 4;

std::uint64_t on_device(std::uint64_t bytes) { return round_up(bytes, Device::kAlignment); }

TierBytes& tier_of(StepMemory& memory, Home home) {
  switch (home) {
    case Home::kDevice:
      return memory.device;
    case Home::kHost:
      return memory.host;
    case Home::kNvme:
      break;
  }
  return memory.drives;
}

BlockSize block_size(const Schedule& schedule) {
  return {.num_tokens = schedule.batch_tokens, .dtype = schedule.dtype, .device = schedule.device};
}

}  // namespace

std::uint64_t as_run(std::uint64_t bytes) { return round_up(bytes, kBlockBytes); }

std::uint64_t weight_bytes(const Architecture& arch, const Schedule& schedule, std::size_t slice_idx) {
  return kept_bytes(arch, slice_idx, schedule.dtype);
}

std::uint64_t unpacked_bytes(const Architecture& arch, const Schedule& schedule) {
  const std::size_t slice_idx = block_slice(arch, 0);
  return is_packed(arch, slice_idx) ? slice_layout(arch, slice_idx).size_bytes(schedule.dtype) : 0;
}

std::uint64_t adapter_bytes(const Architecture& arch, std::size_t slice_idx) {
  return arch.adapter.exists() ? trained_layout(arch, slice_idx).size_bytes(DType::kF32) : 0;
}

std::uint64_t gradient_bytes(const Architecture& arch, std::size_t slice_idx) {
  return trained_layout(arch, slice_idx).size_bytes(DType::kF32);
}

bool rounds_gradients(const Architecture& arch, const Schedule& schedule) {
  return schedule.dtype == DType::kBF16 && !arch.adapter.exists();
}

bool may_store_rounded(const Architecture& arch, std::size_t slice_idx) {
  const bool is_tied = arch.tied_head && slice_id(arch, slice_idx).kind == SliceKind::kEmbedding;
  return !is_tied && on_device(gradient_bytes(arch, slice_idx)) > kSmallSliceBytes;
}

DType gradient_home_dtype(const Architecture& arch, const Schedule& schedule, std::size_t slice_idx) {
  const bool is_rounded = rounds_gradients(arch, schedule) && schedule.is_one_wave &&
                          schedule.homes[slice_idx].gradients != Home::kDevice && may_store_rounded(arch, slice_idx);
  return is_rounded ? DType::kBF16 : DType::kF32;
}

std::uint64_t gradient_run_bytes(const Architecture& arch, const Schedule& schedule, std::size_t slice_idx) {
  return trained_layout(arch, slice_idx).size_bytes(gradient_home_dtype(arch, schedule, slice_idx));
}

std::size_t num_gradient_runs(const Architecture& arch, const Schedule& schedule, std::size_t slice_idx) {
  if (!is_trained(arch, slice_idx)) return 0;
  const bool is_tied = arch.tied_head && slice_id(arch, slice_idx).kind == SliceKind::kEmbedding;
  const bool is_kept = !schedule.is_one_wave || schedule.homes[slice_idx].gradients == Home::kDevice;
  return is_tied && is_kept ? 2 : 1;
}

OptimizerLayout optimizer_layout(const Architecture& arch, const Schedule& schedule, std::uint64_t chunk_bytes,
                                 std::size_t slice_idx) {
  return {trained_dtype(arch, schedule.dtype), schedule.optimizer, chunk_bytes,
          trained_layout(arch, slice_idx).num_elements()};
}

std::uint64_t optimizer_bytes(const Architecture& arch, const Schedule& schedule, std::uint64_t chunk_bytes,
                              std::size_t slice_idx) {
  return is_trained(arch, slice_idx) ? optimizer_layout(arch, schedule, chunk_bytes, slice_idx).run_bytes() : 0;
}

std::uint64_t optimizer_window_bytes(const Architecture& arch, const Schedule& schedule, std::uint64_t chunk_bytes) {
  const DType dtype = trained_dtype(arch, schedule.dtype);
  const OptimizerLayout layout = OptimizerLayout::largest(dtype, schedule.optimizer, chunk_bytes);
  return layout.window_elements() * (size_bytes(dtype) + sizeof(float)) + layout.stride_bytes();
}

bool any_on_drives(const Schedule& schedule) {
  return std::any_of(schedule.homes.begin(), schedule.homes.end(), [](const SliceHomes& homes) {
    return homes.weights == Home::kNvme || homes.optimizer == Home::kNvme || homes.gradients == Home::kNvme;
  });
}

namespace {

// Where the update of a slice finds what it works on.
std::array<Home, 3> update_homes(const Architecture& arch, const Schedule& schedule, std::size_t slice_idx) {
  const SliceHomes& homes = schedule.homes[slice_idx];
  return {arch.adapter.exists() ? Home::kDevice : homes.weights, homes.optimizer, homes.gradients};
}

}  // namespace

bool updates_on_card(const Architecture& arch, const Schedule& schedule, std::size_t slice_idx) {
  const std::array<Home, 3> homes = update_homes(arch, schedule, slice_idx);
  return schedule.device != DeviceKind::kCpu &&
         std::all_of(homes.begin(), homes.end(), [](Home home) { return home == Home::kDevice; });
}

std::size_t num_optimizer_windows(const Architecture& arch, const Schedule& schedule, std::size_t most) {
  std::size_t num_windows = 0;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    if (!is_trained(arch, slice_idx) || updates_on_card(arch, schedule, slice_idx)) continue;
    for (const Home home : update_homes(arch, schedule, slice_idx)) {
      if (home == Home::kNvme) return most;
      if (home == Home::kDevice && schedule.device != DeviceKind::kCpu) num_windows = std::min<std::size_t>(most, 2);
    }
  }
  return num_windows;
}

PlaceBytes weight_place_bytes(const Architecture& arch, const Schedule& schedule) {
  PlaceBytes bytes;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    if (schedule.homes[slice_idx].weights == Home::kDevice) continue;
    const std::uint64_t one = on_device(weight_bytes(arch, schedule, slice_idx));
    if (one <= kSmallSliceBytes) {
      bytes.small += one;
    } else {
      bytes.large = std::max(bytes.large, one);
    }
  }
  return bytes;
}

PlaceBytes gradient_place_bytes(const Architecture& arch, const Schedule& schedule) {
  PlaceBytes bytes;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    if (schedule.homes[slice_idx].gradients == Home::kDevice || !is_trained(arch, slice_idx)) continue;
    std::uint64_t one = on_device(gradient_bytes(arch, slice_idx));
    // The sum, and behind it what it is rounded to.
    if (gradient_home_dtype(arch, schedule, slice_idx) == DType::kBF16) {
      one += on_device(gradient_run_bytes(arch, schedule, slice_idx));
    }
    std::uint64_t& most = one <= kSmallSliceBytes ? bytes.small : bytes.large;
    most = std::max(most, one);
  }
  return bytes;
}

std::size_t small_gradient_places(const Schedule& schedule) {
  return kSmallGradientPlaces * static_cast<std::size_t>(schedule.group);
}

std::uint64_t boundary_bytes(const Architecture& arch, const Schedule& schedule) {
  return static_cast<std::uint64_t>(schedule.batch_tokens * arch.hidden) * size_bytes(schedule.dtype);
}

bool prepares_gradients(const Schedule& schedule) {
  return schedule.gradient_places >= 2 * static_cast<std::size_t>(schedule.group) + 1;
}

bool keeps_attention(const Architecture& arch, const Schedule& schedule, std::int64_t layer_idx) {
  return schedule.boundaries != Home::kDevice && layer_idx < arch.num_layers() &&
         layer_idx >= arch.num_layers() - schedule.kept_attention;
}

std::uint64_t attention_offset(const Architecture& arch, const Schedule& schedule) {
  return on_device(boundary_bytes(arch, schedule));
}

std::uint64_t boundary_run_bytes(const Architecture& arch, const Schedule& schedule, std::int64_t layer_idx) {
  if (!keeps_attention(arch, schedule, layer_idx)) return boundary_bytes(arch, schedule);
  return attention_offset(arch, schedule) + attention_kept_bytes(arch, block_size(schedule));
}

std::uint64_t boundary_place_bytes(const Architecture& arch, const Schedule& schedule) {
  return boundary_run_bytes(arch, schedule, arch.num_layers() - 1);  // the last keeps the most
}

std::uint64_t num_boundary_places(const Architecture& arch, const Schedule& schedule) {
  const auto wave = static_cast<std::uint64_t>(schedule.wave);
  if (schedule.boundaries == Home::kDevice) return wave * (arch.layers.size() + 1);
  return wave + schedule.boundary_places;
}

std::uint64_t stored_bytes(const Architecture& arch, const Schedule& schedule) {
  return block_kept_bytes(arch, block_size(schedule));
}

std::uint64_t num_stored(const Schedule& schedule) {
  return static_cast<std::uint64_t>(schedule.stored_layers * schedule.wave);
}

std::uint64_t workspace_bytes(const Architecture& arch, const Schedule& schedule) {
  const BlockSize size = block_size(schedule);
  return std::max({block_forward_workspace_bytes(arch, size), block_backward_workspace_bytes(arch, size),
                   head_workspace_bytes(arch, size)});
}

std::uint64_t head_state_bytes(const Architecture& arch, const Schedule& schedule) {
  Workspace counting;
  take_head_state(arch, schedule.batch_tokens, counting);
  return counting.used_bytes();
}

std::uint64_t loss_bytes(const Schedule& schedule) {
  return static_cast<std::uint64_t>(schedule.batch_tokens) * sizeof(float);
}

namespace {

// Of what an update writes of the slice, as stored.
std::uint64_t trained_bytes_at(const Architecture& arch, const Schedule& schedule, std::uint64_t chunk_bytes,
                               std::size_t slice_idx, bool on_drives) {
  const SliceHomes& homes = schedule.homes[slice_idx];
  const Home weights_home = arch.adapter.exists() ? Home::kDevice : homes.weights;
  const std::uint64_t weights =
      arch.adapter.exists() ? adapter_bytes(arch, slice_idx) : weight_bytes(arch, schedule, slice_idx);
  std::uint64_t bytes = 0;
  if ((weights_home == Home::kNvme) == on_drives) bytes += as_run(weights);
  if ((homes.optimizer == Home::kNvme) == on_drives) {
    bytes += as_run(optimizer_bytes(arch, schedule, chunk_bytes, slice_idx));
  }
  return bytes;
}

// An update begins a slice's new version while windows of those before it are still on their way to theirs, so that old
// and new ones stand side by side.
std::uint64_t most_under_way(const Architecture& arch, const Schedule& schedule, const StepBuffers& buffers) {
  struct UnderWay {
    std::uint64_t bytes = 0;
    std::uint64_t windows = 0;
  };
  std::deque<UnderWay> slices;
  UnderWay all;
  std::uint64_t most = 0;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    if (!is_trained(arch, slice_idx)) continue;
    const std::uint64_t bytes = trained_bytes_at(arch, schedule, buffers.chunk_bytes, slice_idx, true);
    if (bytes == 0) continue;
    const OptimizerLayout layout = optimizer_layout(arch, schedule, buffers.chunk_bytes, slice_idx);
    const std::uint64_t windows = div_ceil(trained_layout(arch, slice_idx).num_elements(), layout.window_elements());
    // The oldest is done once the windows behind its own take all there are.
    while (!slices.empty() && all.windows - slices.front().windows >= buffers.optimizer_windows) {
      all.bytes -= slices.front().bytes;
      all.windows -= slices.front().windows;
      slices.pop_front();
    }
    slices.push_back({bytes, windows});
    all.bytes += bytes;
    all.windows += windows;
    most = std::max(most, all.bytes);
  }
  return most;
}

std::uint64_t all_trained_bytes(const Architecture& arch, const Schedule& schedule, const StepBuffers& buffers,
                                bool on_drives) {
  std::uint64_t bytes = 0;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    bytes += trained_bytes_at(arch, schedule, buffers.chunk_bytes, slice_idx, on_drives);
  }
  return bytes;
}

void count_versions(const Architecture& arch, const Schedule& schedule, const StepBuffers& buffers, TierBytes& drives) {
  const std::uint64_t on_drives = all_trained_bytes(arch, schedule, buffers, true);
  const std::uint64_t in_memory = all_trained_bytes(arch, schedule, buffers, false);
  const KeptVersions& kept = buffers.kept_versions;
  if (in_memory == 0) {
    drives.checkpoints = kept.in_steps * on_drives;
    return;
  }
  drives.buffers = most_under_way(arch, schedule, buffers);
  if (!kept.in_commits) return;
  // A commit writes what is in memory when no update is under way.
  drives.checkpoints = *kept.in_commits * (on_drives + in_memory) + in_memory - std::min(in_memory, drives.buffers);
}

}  // namespace

std::uint64_t commit_bytes(const Architecture& arch, const Schedule& schedule, const StepBuffers& buffers) {
  return all_trained_bytes(arch, schedule, buffers, false);
}

StepMemory step_memory(const Architecture& arch, const Schedule& schedule, const StepBuffers& buffers) {
  StepMemory memory;
  const auto wave = static_cast<std::uint64_t>(schedule.wave);
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    const SliceHomes& homes = schedule.homes[slice_idx];
    tier_of(memory, homes.weights).weights += as_run(weight_bytes(arch, schedule, slice_idx));
    memory.device.weights += as_run(adapter_bytes(arch, slice_idx));
    tier_of(memory, homes.optimizer).optimizer += optimizer_bytes(arch, schedule, buffers.chunk_bytes, slice_idx);
    tier_of(memory, homes.gradients).gradients +=
        num_gradient_runs(arch, schedule, slice_idx) * as_run(gradient_run_bytes(arch, schedule, slice_idx));
  }
  const PlaceBytes weights = weight_place_bytes(arch, schedule);
  memory.device.weights += weights.large * schedule.weight_places + weights.small +
                           on_device(unpacked_bytes(arch, schedule)) * static_cast<std::uint64_t>(schedule.group);
  const PlaceBytes gradients = gradient_place_bytes(arch, schedule);
  memory.device.gradients += gradients.large * schedule.gradient_places +
                             gradients.small * small_gradient_places(schedule) +
                             on_device(num_slices(arch) * sizeof(float));
  memory.device.activations += num_boundary_places(arch, schedule) * on_device(boundary_place_bytes(arch, schedule)) +
                               num_stored(schedule) * on_device(stored_bytes(arch, schedule)) +
                               on_device(workspace_bytes(arch, schedule)) +
                               wave * (on_device(head_state_bytes(arch, schedule)) + on_device(loss_bytes(schedule)) +
                                       on_device(Batch::size_bytes(arch, schedule.batch_tokens)));
  if (schedule.boundaries != Home::kDevice) {
    for (std::int64_t layer_idx = 0; layer_idx < arch.num_layers(); ++layer_idx) {
      tier_of(memory, schedule.boundaries).activations += wave * as_run(boundary_run_bytes(arch, schedule, layer_idx));
    }
  }
  memory.host.buffers += buffers.staging_bytes;
  memory.device.buffers += on_device(buffers.scratch_bytes);
  memory.host.buffers += optimizer_window_bytes(arch, schedule, buffers.chunk_bytes) *
                         num_optimizer_windows(arch, schedule, buffers.optimizer_windows);
  count_versions(arch, schedule, buffers, memory.drives);
  return memory;
}

}  // namespace sluice
