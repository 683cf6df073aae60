// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_plan.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/units.h"

namespace sluice::cpu {
namespace {

std::int64_t up(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }
std::int64_t blocks(std::int64_t value, std::int64_t block) { return (value + block - 1) / block; }

struct Blocks {
  std::int64_t local = 0;
  std::int64_t shared = 0;
};

struct Candidate {
  std::int64_t block = 0;
  std::uint32_t num_blocks = 0;
};

// Multiples of the width up to `most`, none larger than it takes to cover `total`; largest first.
std::vector<Candidate> candidates(std::int64_t most, std::int64_t total, std::int64_t width) {
  std::vector<Candidate> found;
  for (std::int64_t block = std::min(up(most, width), up(total, width)); block > 0; block -= width) {
    found.push_back({.block = block, .num_blocks = static_cast<std::uint32_t>(blocks(total, block))});
  }
  return found;
}

// The time of the slowest thread, in multiplications, is least for these.
Blocks choose_blocks(const GemmKernel& kernel, const GemmPlan& plan, Blocks width, std::size_t num_threads) {
  Blocks best;
  std::int64_t best_cost = std::numeric_limits<std::int64_t>::max();
  const auto threads = static_cast<std::uint32_t>(num_threads);
  const std::vector<Candidate> locals = candidates(kernel.max_local, plan.num_local, width.local);
  for (const Candidate& shared : candidates(kernel.max_shared, plan.stretch, width.shared)) {
    for (const Candidate& local : locals) {
      const std::uint32_t num_blocks = local.num_blocks * shared.num_blocks;
      // Cores are seldom equally fast: beyond whole rounds, threads wait for most of a block that began late.
      const std::uint32_t num_tenths =
          std::max(10 * ((num_blocks + threads - 1) / threads), 10 * num_blocks / threads + 7);
      const std::int64_t cost = num_tenths * (local.block * shared.block + local.block * kernel.local_cost +
                                              shared.block * kernel.shared_cost);
      if (cost < best_cost) {
        best_cost = cost;
        best = {.local = local.block, .shared = shared.block};
      }
    }
  }
  return best;
}

}  // namespace

GemmPlan plan_gemm(const GemmKernel& kernel, const Gemm& args, std::int64_t num_k, std::size_t num_threads) {
  const GemmExtents extents = gemm_extents(args);
  GemmPlan plan;
  plan.local_is_rows = extents.m >= extents.n;
  plan.num_local = plan.local_is_rows ? extents.m : extents.n;
  plan.num_shared = plan.local_is_rows ? extents.n : extents.m;
  const Blocks width{.local = plan.local_is_rows ? kernel.rows : kernel.columns,
                     .shared = plan.local_is_rows ? kernel.columns : kernel.rows};

  const std::int64_t row_bytes = std::max<std::int64_t>(up(num_k, kernel.k_step) * kernel.packed_bytes, 1);
  const std::int64_t most = static_cast<std::int64_t>(kMaxGemmSharedBytes) / row_bytes;
  const std::int64_t wanted = std::max(kernel.stretch_bytes / row_bytes, std::min(most, kernel.max_shared));
  const std::int64_t at_most = std::max(wanted / width.shared * width.shared, width.shared);
  plan.stretch = up(blocks(plan.num_shared, blocks(plan.num_shared, at_most)), width.shared);

  const Blocks block = choose_blocks(kernel, plan, width, num_threads);
  plan.local_block = block.local;
  plan.shared_block = block.shared;
  plan.shared_bytes = static_cast<std::uint64_t>(plan.stretch * row_bytes);
  const std::int64_t panel_k = std::min(kernel.panel_k, up(num_k, kernel.k_step));
  plan.panel_bytes = static_cast<std::uint64_t>(block.local * panel_k * kernel.packed_bytes);
  plan.sums_bytes = static_cast<std::uint64_t>(block.local * block.shared) * sizeof(float);
  return plan;
}

}  // namespace sluice::cpu
