// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule_search.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>

#include "device/device.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostBlocksInGroup = 4;

std::vector<std::int64_t> wave_sizes(const PlanRequest& request) {
  if (request.wave) return {*request.wave};
  std::set<std::int64_t> sizes{1, request.accumulation};
  for (std::int64_t size = 2; size < request.accumulation; ++size) {
    const bool is_power = (size & (size - 1)) == 0;
    if (is_power || (request.accumulation % size == 0 && request.accumulation <= 64)) sizes.insert(size);
  }
  return {sizes.begin(), sizes.end()};
}

std::vector<std::int64_t> group_sizes(const PlanRequest& request) {
  if (request.group) return {*request.group};
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size <= std::min(kMostBlocksInGroup, request.arch.num_layers()); ++size) {
    sizes.push_back(size);
  }
  return sizes;
}

std::vector<Home> boundary_homes(const PlanRequest& request) {
  if (request.boundaries) return {*request.boundaries};
  if (request.budgets.drives == 0) return {Home::kDevice, Home::kHost};
  return {Home::kDevice, Home::kHost, Home::kNvme};
}

DeviceKind device_kind(const Machine& machine) {
  return machine.device.kind == Processor::kCpu ? DeviceKind::kCpu : DeviceKind::kCuda;
}

// What of the state lies where, in bytes as they move.
struct StateBytes {
  double weights_away = 0;  // not on the device
  double weights_nvme = 0;
  double changing_weights_nvme = 0;
  double gradients_away = 0;
  double gradients_nvme = 0;
  double optimizer_nvme = 0;
  double elements_by_cpu = 0;
};

StateBytes state_bytes(const std::vector<SliceSizes>& sizes, const Schedule& schedule, const Machine& machine) {
  StateBytes sum;
  for (std::size_t idx = 0; idx < sizes.size(); ++idx) {
    const SliceHomes& homes = schedule.homes[idx];
    const auto weights = static_cast<double>(sizes[idx].weight_bytes);
    const auto gradients = static_cast<double>(gradient_run_bytes(sizes[idx], schedule, homes.gradients));
    if (homes.weights != Home::kDevice && !sizes[idx].has_small_weights) sum.weights_away += weights;
    if (homes.weights == Home::kNvme) sum.weights_nvme += weights;
    if (homes.weights == Home::kNvme && sizes[idx].weights_change) sum.changing_weights_nvme += weights;
    if (homes.gradients != Home::kDevice) sum.gradients_away += gradients;
    if (homes.gradients == Home::kNvme) sum.gradients_nvme += gradients;
    if (homes.optimizer == Home::kNvme) sum.optimizer_nvme += static_cast<double>(sizes[idx].optimizer_bytes);
    if (homes.optimizer != Home::kDevice || machine.device.kind == Processor::kCpu) {
      sum.elements_by_cpu += static_cast<double>(sizes[idx].elements);
    }
  }
  return sum;
}

double over(double bytes, double rate) { return bytes > 0 ? bytes / rate : 0; }

class Search {
 public:
  Search(const PlanRequest& request, const StepSimulator& simulator)
      : request_(request),
        simulator_(simulator),
        placing_{.arch = &request.arch,
                 .sizes = &simulator.sizes(),
                 .buffers = request.buffers,
                 .budgets = request.budgets} {
    for (const SliceSizes& one : simulator.sizes()) {
      largest_weights_ = std::max(largest_weights_, static_cast<double>(one.weight_bytes));
      gradients_s_ += 2 * static_cast<double>(one.gradient_bytes) / request.machine.device.memory_bytes_per_s;
    }
  }

  std::vector<Candidate> run() {
    for (const std::int64_t wave : wave_sizes(request_)) {
      for (const Home boundaries : boundary_homes(request_)) {
        for (const std::int64_t group : group_sizes(request_)) try_shape(wave, group, boundaries);
      }
    }
    std::stable_sort(found_.begin(), found_.end(), [](const Candidate& a, const Candidate& b) {
      return std::tuple(a.least_step_s, a.drive_written_bytes, a.memory_bytes()) <
             std::tuple(b.least_step_s, b.drive_written_bytes, b.memory_bytes());
    });
    return std::move(found_);
  }

 private:
  void try_shape(std::int64_t wave, std::int64_t group, Home boundaries) {
    Schedule schedule{.dtype = request_.dtype,
                      .optimizer = request_.optimizer,
                      .wave = wave,
                      .is_one_wave = wave >= request_.accumulation,
                      .group = group,
                      .batch_tokens = request_.batch_tokens(),
                      .boundaries = boundaries,
                      .boundary_places = 1,
                      .device = device_kind(request_.machine)};
    schedule.weight_places = least_weight_places(schedule);
    schedule.gradient_places = least_gradient_places(request_.arch, schedule);
    Schedule ample = schedule;
    if (schedule.device != DeviceKind::kCpu) {
      // A card that waits for the host to tell it what is next has nothing to do meanwhile, which no forecast knows of.
      ample.boundary_places += 3;
      ample.weight_places += 1;
      ample.gradient_places += 2;
    }
    for (const Residence residence :
         {Residence::kDevice, Residence::kGradientsDevice, Residence::kGradientsHost, Residence::kOptimizerHost,
          Residence::kGradientsHalf, Residence::kGradientsFirst}) {
      // Where everything stays on the device, groups make no difference.
      if (residence == Residence::kDevice && group > 1 && !request_.group) continue;
      // What the host updates it fetches from a card by small windows.
      if (residence == Residence::kGradientsDevice && schedule.device != DeviceKind::kCpu) continue;
      if (!try_residents(place(placing_, ample, residence), residence)) {
        try_residents(place(placing_, schedule, residence), residence);
      }
    }
  }

  // Blocks that stay on the device need no room below, which may be what makes the rest fit. Returns whether any does.
  bool try_residents(const Placed& none, Residence residence) {
    const std::int64_t most = spare_resident_blocks(placing_, none, residence);
    bool any_fits = false;
    for (const std::int64_t count : std::set<std::int64_t>{0, most / 2, most}) {
      const Placed least = count == 0 ? none : place(placing_, none.schedule, residence, count);
      if (!fits(least.memory, request_.budgets)) continue;
      any_fits = true;
      // Without drives there is nothing to choose first.
      if (residence > Residence::kGradientsHost && !any_on_drives(least.schedule)) continue;
      try_places(least);
    }
    return any_fits;
  }

  // Homes do not depend on the number of places, and places are all in device memory.
  void try_places(const Placed& least) {
    const Schedule& schedule = least.schedule;
    const auto blocks = static_cast<std::size_t>(schedule.group);
    const std::uint64_t gradient_place = gradient_place_bytes(request_.arch, schedule).large;
    const std::uint64_t boundary_place = round_up(boundary_bytes(request_.arch, schedule), Device::kAlignment);
    const std::uint64_t weight_place = weight_place_bytes(request_.arch, schedule).large;
    const std::set<std::size_t> more_gradients =
        gradient_place == 0 ? std::set<std::size_t>{0} : std::set<std::size_t>{0, 1, blocks};
    const std::set<std::size_t> more_boundaries =
        schedule.boundaries == Home::kDevice ? std::set<std::size_t>{0} : std::set<std::size_t>{0, 1, 3};
    for (const std::size_t gradients : more_gradients) {
      for (const std::size_t boundaries : more_boundaries) {
        Placed placed = least;
        placed.schedule.gradient_places += gradients;
        placed.schedule.boundary_places += boundaries;
        placed.memory.device.gradients += gradient_place * gradients;
        placed.memory.device.activations += boundary_place * boundaries;
        if (!fits(placed.memory, request_.budgets)) continue;
        const std::size_t most = spare_weight_places(placing_, placed);
        for (const std::size_t weights : std::set<std::size_t>{0, 1, blocks, blocks + 2, most}) {
          if (weights > most) continue;
          Placed with_weights = placed;
          with_weights.schedule.weight_places += weights;
          with_weights.memory.device.weights += weight_place * weights;
          try_stored(with_weights);
        }
      }
    }
  }

  // Device memory that is left spares recomputation.
  void try_stored(const Placed& placed) {
    const std::int64_t most = request_.may_store ? spare_stored_layers(placing_, placed) : 0;
    for (const std::int64_t layers : std::set<std::int64_t>{0, most / 2, most}) {
      add(store_layers(request_.arch, placed, layers));
    }
    // Host memory that is left spares a card some of it. On the CPU a copy costs about what it saves.
    if (placed.schedule.device == DeviceKind::kCpu || !request_.may_store) return;
    const std::int64_t kept = spare_kept_attention(placing_, placed);
    if (kept > 0) add(keep_attention(placing_, placed, kept));
  }

  void add(Placed placed) {
    Candidate candidate{.placed = std::move(placed)};
    bound(candidate);
    found_.push_back(std::move(candidate));
  }

  // What each lane must do, over its speed. A pass over the blocks finds no more of them there than there are places.
  // Only the first wave's forward runs beside the optimizer; everything after it comes after the optimizer's last
  // slice.
  void bound(Candidate& candidate) const {
    const Machine& machine = request_.machine;
    const Schedule& schedule = candidate.placed.schedule;
    const StateBytes state = state_bytes(simulator_.sizes(), schedule, machine);
    const auto waves = static_cast<double>(
        div_ceil(static_cast<std::uint64_t>(request_.accumulation), static_cast<std::uint64_t>(schedule.wave)));
    const double kept = largest_weights_ * static_cast<double>(schedule.weight_places);
    const auto passes = [&](double bytes) { return std::max(bytes, 2 * waves * std::max(0.0, bytes - kept)); };
    const double boundaries = schedule.boundaries == Home::kDevice
                                  ? 0
                                  : static_cast<double>(boundary_bytes(request_.arch, schedule)) *
                                        static_cast<double>(request_.accumulation * request_.arch.num_layers());
    const double nvme_boundaries = schedule.boundaries == Home::kNvme ? boundaries : 0;
    const double to_device = passes(state.weights_away) + (waves - 1) * state.gradients_away;
    const double from_device = waves * state.gradients_away + boundaries;
    const double updated = state.changing_weights_nvme + state.optimizer_nvme;
    const double read = passes(state.weights_nvme) + updated + waves * state.gradients_nvme;
    const double written = updated + waves * state.gradients_nvme + nvme_boundaries;
    const double read_rate = machine.drives_read_bytes_per_s();
    const double write_rate = machine.drives_write_bytes_per_s();
    const double optimizer_s = update_s(schedule.optimizer, state.elements_by_cpu, machine);
    const double update_s =
        std::max(optimizer_s + over(updated, write_rate), over(updated + state.gradients_nvme, read_rate));

    const StepCosts& costs = simulator_.costs();
    const double forward_s = costs.forward_s();
    double compute_s =
        (forward_s + costs.backward_s(schedule)) * static_cast<double>(request_.accumulation) + gradients_s_;
    const double beside_s = forward_s * static_cast<double>(schedule.wave);
    const double after_s = compute_s - beside_s;
    // One set of cores does both.
    if (machine.device.kind == Processor::kCpu) compute_s += optimizer_s;
    candidate.drive_written_bytes = written;
    candidate.least_step_s = std::max(
        {compute_s, update_s + after_s, over(to_device, machine.links.to_device_bytes_per_s),
         over(from_device, machine.links.from_device_bytes_per_s), over(read, read_rate), over(written, write_rate),
         over(read + written, (read_rate + write_rate) * machine.drives_both_ways())});
  }

  const PlanRequest& request_;
  const StepSimulator& simulator_;
  PlacementRequest placing_;
  double largest_weights_ = 0;
  double gradients_s_ = 0;  // to zero them and to take their norm
  std::vector<Candidate> found_;
};

}  // namespace

std::vector<Candidate> find_candidates(const PlanRequest& request, const StepSimulator& simulator) {
  return Search(request, simulator).run();
}

Placed least_candidate(const PlanRequest& request, const std::vector<SliceSizes>& sizes) {
  const PlacementRequest placing{
      .arch = &request.arch, .sizes = &sizes, .buffers = request.buffers, .budgets = request.budgets};
  std::optional<Placed> least;
  for (const Home boundaries : boundary_homes(request)) {
    Schedule schedule{.dtype = request.dtype,
                      .optimizer = request.optimizer,
                      .wave = request.wave.value_or(1),
                      .is_one_wave = request.wave.value_or(1) >= request.accumulation,
                      .group = request.group.value_or(1),
                      .batch_tokens = request.batch_tokens(),
                      .boundaries = boundaries,
                      .boundary_places = 1,
                      .device = device_kind(request.machine)};
    schedule.weight_places = least_weight_places(schedule);
    schedule.gradient_places = least_gradient_places(request.arch, schedule);
    for (const Residence residence : {Residence::kGradientsHost, Residence::kGradientsDevice, Residence::kDevice}) {
      Placed placed = place(placing, schedule, residence);
      if (!fits(placed.memory, request.budgets)) {
        placed = place(placing, schedule, residence, spare_resident_blocks(placing, placed, residence));
      }
      const std::uint64_t excess = excess_bytes(placed.memory, request.budgets);
      // What is kept on the device may be what makes it fit; it is never what to ask a larger device for.
      if (residence != Residence::kGradientsHost && excess > 0) continue;
      if (!least || excess < excess_bytes(least->memory, request.budgets)) least = std::move(placed);
    }
  }
  return *least;
}

}  // namespace sluice
