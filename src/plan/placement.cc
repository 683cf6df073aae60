// SPDX-License-Identifier: Apache-2.0
#include "plan/placement.h"

#include <algorithm>
#include <array>

#include "device/device.h"
#include "model/slice_layout.h"
#include "tier/store_format.h"

namespace sluice {
namespace {

std::uint64_t beyond(std::uint64_t bytes, std::uint64_t budget) { return bytes > budget ? bytes - budget : 0; }

bool uses_drives(const Schedule& schedule) { return any_on_drives(schedule) || schedule.boundaries == Home::kNvme; }

StepMemory memory_of(const PlacementRequest& request, Placed& placed) {
  placed.buffers = request.buffers;
  if (!uses_drives(placed.schedule)) placed.buffers.staging_bytes = 0;
  return step_memory(*request.arch, placed.schedule, placed.buffers);
}

enum class Part : std::uint8_t { kWeights, kGradients, kOptimizer };

Home& home_of(SliceHomes& homes, Part part) {
  switch (part) {
    case Part::kWeights:
      return homes.weights;
    case Part::kGradients:
      return homes.gradients;
    case Part::kOptimizer:
      break;
  }
  return homes.optimizer;
}

std::uint64_t bytes_of(const PlacementRequest& request, const Schedule& schedule, std::size_t slice_idx, Part part) {
  const SliceSizes& sizes = (*request.sizes)[slice_idx];
  switch (part) {
    case Part::kWeights:
      return as_run(sizes.weight_bytes);
    case Part::kGradients:
      return as_run(gradient_run_bytes(sizes, schedule, Home::kHost)) *
             num_gradient_runs(*request.arch, schedule, slice_idx);
    case Part::kOptimizer:
      break;
  }
  return sizes.optimizer_bytes;
}

// So many of [0, total), evenly.
std::vector<std::size_t> spread_evenly(std::size_t count, std::size_t total) {
  std::vector<std::size_t> chosen;
  for (std::size_t idx = 0; idx < total; ++idx) {
    if ((idx + 1) * count / total > idx * count / total) chosen.push_back(idx);
  }
  return chosen;
}

// Moves from the drives to host memory what `room` holds of it.
void fill_host(const PlacementRequest& request, Schedule& schedule, Part part, std::uint64_t& room) {
  const Architecture& arch = *request.arch;
  const auto move = [&](std::size_t slice_idx) {
    Home& home = home_of(schedule.homes[slice_idx], part);
    const std::uint64_t bytes = bytes_of(request, schedule, slice_idx, part);
    if (home != Home::kNvme || bytes > room) return;
    home = Home::kHost;
    room -= bytes;
  };
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    if (slice_id(arch, slice_idx).kind != SliceKind::kBlock) move(slice_idx);
  }
  std::vector<std::int64_t> blocks;
  for (std::int64_t layer_idx = 0; layer_idx < arch.num_layers(); ++layer_idx) {
    if (home_of(schedule.homes[block_slice(arch, layer_idx)], part) == Home::kNvme) blocks.push_back(layer_idx);
  }
  if (blocks.empty()) return;
  const std::uint64_t block = bytes_of(request, schedule, block_slice(arch, blocks.front()), part);
  const std::size_t count = block == 0 ? blocks.size() : std::min<std::size_t>(blocks.size(), room / block);
  for (const std::size_t idx : spread_evenly(count, blocks.size())) move(block_slice(arch, blocks[idx]));
}

// What of adapters is written in every step is small, and comes first: then nothing is written to the drives.
std::array<Part, 3> filling_order(const Architecture& arch, Residence residence) {
  if (arch.adapter.exists()) return {Part::kOptimizer, Part::kGradients, Part::kWeights};
  if (residence == Residence::kOptimizerHost) return {Part::kWeights, Part::kOptimizer, Part::kGradients};
  if (residence == Residence::kGradientsFirst) return {Part::kGradients, Part::kWeights, Part::kOptimizer};
  return {Part::kWeights, Part::kGradients, Part::kOptimizer};
}

// Of all micro-batches of a wave.
std::uint64_t stored_layer_bytes(const Architecture& arch, const Schedule& schedule) {
  return static_cast<std::uint64_t>(schedule.wave) * round_up(stored_bytes(arch, schedule), Device::kAlignment);
}

}  // namespace

std::uint64_t excess_bytes(const StepMemory& memory, const TierBudgets& budgets) {
  return beyond(memory.device.total(), budgets.device) + beyond(memory.host.total(), budgets.host) +
         beyond(memory.drives.total(), budgets.drives);
}

std::size_t least_weight_places(const Schedule& schedule) { return static_cast<std::size_t>(schedule.group); }

// A tied embedding's two sums meet at the end.
std::size_t least_gradient_places(const Architecture& arch, const Schedule& schedule) {
  return std::max<std::size_t>(static_cast<std::size_t>(schedule.group),
                               arch.tied_head && !arch.adapter.exists() ? 2 : 1);
}

Placed place(const PlacementRequest& request, Schedule schedule, Residence residence, std::int64_t num_resident) {
  const Home gradients =
      residence == Residence::kDevice || residence == Residence::kGradientsDevice ? Home::kDevice : Home::kHost;
  const Home rest = residence == Residence::kDevice ? Home::kDevice : Home::kHost;
  schedule.homes.assign(num_slices(*request.arch), {.weights = rest, .optimizer = rest, .gradients = gradients});
  const auto num_layers = static_cast<std::size_t>(request.arch->num_layers());
  for (const std::size_t layer_idx : spread_evenly(static_cast<std::size_t>(num_resident), num_layers)) {
    schedule.homes[block_slice(*request.arch, static_cast<std::int64_t>(layer_idx))] = {
        .weights = Home::kDevice, .optimizer = Home::kDevice, .gradients = Home::kDevice};
  }
  Placed placed{.schedule = std::move(schedule)};
  placed.memory = memory_of(request, placed);
  if (residence == Residence::kDevice || request.budgets.drives == 0 ||
      placed.memory.host.total() <= request.budgets.host) {
    return placed;
  }
  for (SliceHomes& homes : placed.schedule.homes) {
    for (const Part part : {Part::kWeights, Part::kGradients, Part::kOptimizer}) {
      if (home_of(homes, part) == Home::kHost) home_of(homes, part) = Home::kNvme;
    }
  }
  placed.memory = memory_of(request, placed);
  std::uint64_t room = beyond(request.budgets.host, placed.memory.host.total());
  if (residence == Residence::kGradientsHalf) {
    std::uint64_t half = room / 2;
    room -= half;
    fill_host(request, placed.schedule, Part::kGradients, half);
    room += half;
  }
  for (const Part part : filling_order(*request.arch, residence)) fill_host(request, placed.schedule, part, room);
  placed.memory = memory_of(request, placed);
  return placed;
}

std::int64_t spare_resident_blocks(const PlacementRequest& request, const Placed& placed, Residence residence) {
  const std::int64_t num_layers = request.arch->num_layers();
  if (residence == Residence::kDevice || num_layers == 0) return 0;
  // Every block takes as much as the first.
  const std::uint64_t with_one = place(request, placed.schedule, residence, 1).memory.device.total();
  const std::uint64_t each = beyond(with_one, placed.memory.device.total());
  if (each == 0) return 0;
  const std::uint64_t room = beyond(request.budgets.device, placed.memory.device.total()) / each;
  return static_cast<std::int64_t>(std::min(room, static_cast<std::uint64_t>(num_layers)));
}

std::size_t spare_weight_places(const PlacementRequest& request, const Placed& placed) {
  const std::uint64_t one = weight_place_bytes(*request.arch, placed.schedule).large;
  if (one == 0) return 0;
  std::size_t num_large = 0;  // that need a place
  for (std::size_t slice_idx = 0; slice_idx < request.sizes->size(); ++slice_idx) {
    const bool is_away = placed.schedule.homes[slice_idx].weights != Home::kDevice;
    num_large += is_away && !(*request.sizes)[slice_idx].has_small_weights ? 1 : 0;
  }
  const std::size_t room = beyond(request.budgets.device, placed.memory.device.total()) / one;
  return std::min(room, num_large - std::min(num_large, placed.schedule.weight_places));
}

std::int64_t spare_stored_layers(const PlacementRequest& request, const Placed& placed) {
  const std::uint64_t one = stored_layer_bytes(*request.arch, placed.schedule);
  const std::uint64_t room = beyond(request.budgets.device, placed.memory.device.total()) / one;
  const std::int64_t left = request.arch->num_layers() - placed.schedule.stored_layers;
  return static_cast<std::int64_t>(std::min(room, static_cast<std::uint64_t>(left)));
}

Placed keep_attention(const PlacementRequest& request, Placed placed, std::int64_t num_layers) {
  placed.schedule.kept_attention = num_layers;
  placed.memory = memory_of(request, placed);
  return placed;
}

std::int64_t spare_kept_attention(const PlacementRequest& request, const Placed& placed) {
  if (placed.schedule.boundaries != Home::kHost) return 0;
  // Every layer takes as much as the first.
  const Placed one = keep_attention(request, placed, 1);
  if (!fits(one.memory, request.budgets)) return 0;
  const std::uint64_t each = one.memory.host.total() - placed.memory.host.total();
  const std::uint64_t room = beyond(request.budgets.host, placed.memory.host.total()) / each;
  return static_cast<std::int64_t>(std::min<std::uint64_t>(room, request.arch->layers.size()));
}

Placed store_layers(const Architecture& arch, Placed placed, std::int64_t num_layers) {
  placed.memory.device.activations +=
      stored_layer_bytes(arch, placed.schedule) * static_cast<std::uint64_t>(num_layers);
  placed.schedule.stored_layers += num_layers;
  return placed;
}

}  // namespace sluice
