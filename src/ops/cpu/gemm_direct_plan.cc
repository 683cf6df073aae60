// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_direct_plan.h"

#include <algorithm>

namespace sluice::cpu {
namespace {

std::int64_t up(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }
std::int64_t blocks(std::int64_t value, std::int64_t block) { return (value + block - 1) / block; }

bool a_has_k_along(const Gemm& args) { return args.transpose_a == Transpose::kNo; }
bool b_has_k_along(const Gemm& args) { return args.transpose_b == Transpose::kYes; }

// R is the operand with k along; where both have it, the longer, so that less is packed.
bool is_swapped(const Gemm& args, const GemmExtents& extents) {
  if (a_has_k_along(args) && b_has_k_along(args)) return extents.n >= extents.m;
  return b_has_k_along(args);
}

// Cores are seldom equally fast: with some blocks for each thread, the fast ones can take from the slow. Blocks of all
// rows are large.
constexpr std::int64_t kBlocksPerThread = 2;
constexpr std::int64_t kOwnBlocksPerThread = 3;

std::int64_t half(std::int64_t block) { return std::max(up(block / 2, kAmxSide), kAmxSide); }

void choose_blocks(DirectPlan& plan, std::size_t num_threads) {
  const auto num_blocks = [&] {
    return blocks(plan.num_rows, plan.block_rows) * blocks(plan.stretch, plan.block_columns);
  };
  const std::int64_t per_thread = plan.packed_for == PackedFor::kEach ? kOwnBlocksPerThread : kBlocksPerThread;
  const std::int64_t wanted = num_threads == 1 ? 1 : per_thread * static_cast<std::int64_t>(num_threads);
  while (num_blocks() < wanted && (plan.block_rows > kAmxSide || plan.block_columns > kAmxSide)) {
    // Of a thread that packs for itself, all of R.
    const bool cuts_columns = plan.packed_for == PackedFor::kEach || plan.block_columns > plan.block_rows;
    if (cuts_columns && plan.block_columns == kAmxSide) return;
    (cuts_columns ? plan.block_columns : plan.block_rows) = half(cuts_columns ? plan.block_columns : plan.block_rows);
  }
}

}  // namespace

bool gemm_direct_takes(const Gemm& args) {
  return (a_has_k_along(args) || b_has_k_along(args)) && gemm_extents(args).k > 0;
}

DirectPlan plan_direct(const DirectKernel& kernel, const Gemm& args, std::size_t num_threads) {
  const GemmExtents extents = gemm_extents(args);
  DirectPlan plan;
  plan.is_swapped = is_swapped(args, extents);
  plan.num_rows = plan.is_swapped ? extents.n : extents.m;
  plan.num_columns = plan.is_swapped ? extents.m : extents.n;
  const std::int64_t all_rows = up(plan.num_rows, kAmxSide);
  const std::int64_t all_columns = up(plan.num_columns, kAmxSide);
  const std::int64_t column_bytes = up(extents.k, kAmxStepK) * 2;
  if (plan.num_rows < plan.num_columns && plan.num_rows <= kernel.max_own_rows) {
    plan.packed_for = PackedFor::kEach;
    plan.stretch = all_columns;
    plan.block_rows = all_rows;
    plan.block_columns = std::min(kernel.own_columns, all_columns);
  } else {
    const std::int64_t most = std::max(kernel.max_packed_bytes / column_bytes / kAmxSide * kAmxSide, kAmxSide);
    plan.stretch = up(blocks(all_columns, blocks(all_columns, most)), kAmxSide);
    plan.packed_bytes = static_cast<std::uint64_t>(plan.stretch * column_bytes);
    plan.block_rows = std::min(kernel.block_rows, all_rows);
    plan.block_columns = std::min(kernel.block_columns, plan.stretch);
  }
  choose_blocks(plan, num_threads);

  const std::int64_t panel_bytes = std::min(kernel.panel_k * 2, column_bytes);
  plan.kept_bytes = static_cast<std::uint64_t>(kAmxSide * panel_bytes);
  if (plan.packed_for == PackedFor::kEach) {
    plan.columns_bytes = static_cast<std::uint64_t>(plan.block_columns * panel_bytes);
  }
  plan.sums_bytes = static_cast<std::uint64_t>(plan.block_rows * plan.block_columns) * sizeof(float);
  return plan;
}

}  // namespace sluice::cpu
