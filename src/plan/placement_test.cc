// SPDX-License-Identifier: Apache-2.0
#include "plan/placement.h"

#include <gtest/gtest.h>

#include "model/slice_layout.h"
#include "plan/handmade_plan.h"

namespace sluice {
namespace {

// Host memory for half of the gradients.
TierBytes host_of(Residence residence) {
  const Architecture arch = small_arch(8);
  PlacementRequest request{.arch = &arch, .buffers = {.chunk_bytes = 64 * kKiB, .staging_bytes = kMiB}};
  const auto sizes = slice_sizes(arch, DType::kBF16, OptimizerState::kAdamWF32, request.buffers.chunk_bytes);
  request.sizes = &sizes;
  Schedule schedule{.batch_tokens = 64};
  request.budgets = {.device = kTiB, .host = kTiB, .drives = kTiB};
  const std::uint64_t gradients = place(request, schedule, Residence::kGradientsHost).memory.host.gradients;
  request.budgets.host = 0;  // what is left then are buffers
  request.budgets.host = place(request, schedule, residence).memory.host.total() + gradients / 2;
  const Placed placed = place(request, schedule, residence);
  EXPECT_TRUE(fits(placed.memory, request.budgets));
  return placed.memory.host;
}

TEST(Placement, HostMemoryIsFilledInTheOrderThatIsAsked) {
  const TierBytes weights_first = host_of(Residence::kGradientsHost);
  const TierBytes half = host_of(Residence::kGradientsHalf);
  const TierBytes gradients_first = host_of(Residence::kGradientsFirst);
  EXPECT_GT(gradients_first.gradients, half.gradients);
  EXPECT_GT(half.gradients, weights_first.gradients);
  EXPECT_LT(gradients_first.weights, half.weights);
  EXPECT_LE(half.weights, weights_first.weights);
}

TEST(Placement, ResidentBlocksAreSpreadAndNeedNoRoomBelow) {
  const Architecture arch = small_arch(8);
  PlacementRequest request{.arch = &arch, .buffers = {.chunk_bytes = 64 * kKiB, .staging_bytes = kMiB}};
  const auto sizes = slice_sizes(arch, DType::kBF16, OptimizerState::kAdamWF32, request.buffers.chunk_bytes);
  request.sizes = &sizes;
  const Schedule schedule{.batch_tokens = 64};
  request.budgets = {.device = kTiB, .host = 0, .drives = kTiB};  // what is left then are buffers
  request.budgets.host = place(request, schedule, Residence::kGradientsHost).memory.host.total() + 8 * kMiB;
  const Placed none = place(request, schedule, Residence::kGradientsHost);
  const Placed two = place(request, schedule, Residence::kGradientsHost, 2);
  EXPECT_TRUE(fits(two.memory, request.budgets));
  EXPECT_EQ(spare_resident_blocks(request, none, Residence::kGradientsHost), 8);
  std::vector<std::int64_t> resident;
  for (std::int64_t layer_idx = 0; layer_idx < 8; ++layer_idx) {
    if (two.schedule.homes[block_slice(arch, layer_idx)].optimizer == Home::kDevice) resident.push_back(layer_idx);
  }
  EXPECT_EQ(resident, (std::vector<std::int64_t>{3, 7}));
  EXPECT_LT(two.memory.drives.total(), none.memory.drives.total());
  // Host memory is as full as before: what stays on the device leaves its part of it to others.
  EXPECT_GT(two.memory.host.total() + two.memory.host.total() / 8, none.memory.host.total());
  // Room for two and a half is room for two.
  const std::uint64_t each = (two.memory.device.total() - none.memory.device.total()) / 2;
  request.budgets.device = none.memory.device.total() + each * 5 / 2;
  EXPECT_EQ(spare_resident_blocks(request, none, Residence::kGradientsHost), 2);
  EXPECT_EQ(spare_resident_blocks(request, none, Residence::kDevice), 0);
}

}  // namespace
}  // namespace sluice
