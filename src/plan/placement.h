// SPDX-License-Identifier: Apache-2.0
// Where a schedule's state goes within budgets. Host memory is filled with weights first, which cross the drives most
// often, then with gradients or the optimizer's state; or with gradients first, since these go to the drives while
// little is read from them; beside adapters, with what is trained first. Of each, the ends of the model and then blocks
// evenly spread over its depth, so that the drives' work is spread over the step. What is left goes to the drives. Some
// blocks may stay on the device with all their state: spare memory there is memory like any other.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/architecture.h"
#include "plan/schedule.h"
#include "plan/slice_sizes.h"
#include "plan/step_memory.h"

namespace sluice {

struct TierBudgets {
  std::uint64_t device = 0;
  std::uint64_t host = 0;
  std::uint64_t drives = 0;  // 0: there are none
};

// Bytes beyond the budgets, of all tiers.
std::uint64_t excess_bytes(const StepMemory& memory, const TierBudgets& budgets);
inline bool fits(const StepMemory& memory, const TierBudgets& budgets) { return excess_bytes(memory, budgets) == 0; }

enum class Residence : std::uint8_t {
  kDevice,           // all of the state
  kGradientsDevice,  // gradients on the device, the rest below
  kGradientsHost,    // nothing on the device; host memory for weights, then gradients, then the optimizer's state
  kOptimizerHost,    // the last two the other way round: gradients go to the drives while the optimizer rests
  kGradientsHalf,    // half of host memory for gradients before weights
  kGradientsFirst,   // all of it
};

struct Placed {
  Schedule schedule;
  StepBuffers buffers;
  StepMemory memory;
};

struct PlacementRequest {
  const Architecture* arch = nullptr;
  const std::vector<SliceSizes>* sizes = nullptr;
  StepBuffers buffers;  // the ring and windows are left out where nothing is on the drives
  TierBudgets budgets;
};

// The schedule with homes for all slices; whether its memory fits is for the caller to see. `num_resident` blocks stay
// on the device.
Placed place(const PlacementRequest& request, Schedule schedule, Residence residence, std::int64_t num_resident = 0);
// How many could, beside what a placement without any has there.
std::int64_t spare_resident_blocks(const PlacementRequest& request, const Placed& placed, Residence residence);

// The fewest places that the trainer can work with.
std::size_t least_weight_places(const Schedule& schedule);
std::size_t least_gradient_places(const Architecture& arch, const Schedule& schedule);
// Room for so many more places for weights, within the device's budget.
std::size_t spare_weight_places(const PlacementRequest& request, const Placed& placed);
// How many last layers' attention can wait with their boundaries, and the placement where so many do.
std::int64_t spare_kept_attention(const PlacementRequest& request, const Placed& placed);
Placed keep_attention(const PlacementRequest& request, Placed placed, std::int64_t num_layers);
// Room for the intermediates of so many more layers.
std::int64_t spare_stored_layers(const PlacementRequest& request, const Placed& placed);
// The same with the intermediates of so many more layers.
Placed store_layers(const Architecture& arch, Placed placed, std::int64_t num_layers);

}  // namespace sluice
