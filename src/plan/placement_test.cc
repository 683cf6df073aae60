// SPDX-License-Identifier: Apache-2.0
#include "plan/placement.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sluice
