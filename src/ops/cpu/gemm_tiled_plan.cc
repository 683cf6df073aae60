// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_tiled_plan.h"

#include <algorithm>

namespace sluice::cpu {
namespace {

std::int64_t up(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }
std::int64_t blocks(std::int64_t value, std::int64_t block) { return (value + block - 1) / block; }

// Where both have k along, the longer operand is R, so that less is packed. Where they are as long, or neither has,
// tiles are written as they are.
bool is_swapped(const Gemm& args, const GemmExtents& extents) {
  const bool a_has_k_along = args.transpose_a == Transpose::kNo;
  const bool b_has_k_along = args.transpose_b == Transpose::kYes;
  return b_has_k_along && (!a_has_k_along || extents.n > extents.m);
}

// As even parts as can be, none larger than `most`, of what is a multiple of kAmxSide.
std::int64_t stretch_of(std::int64_t total, std::int64_t most) {
  return up(blocks(total, blocks(total, std::max(most / kAmxSide * kAmxSide, kAmxSide))), kAmxSide);
}

// Even parts of about that size, up to half as much again: a narrow block is worse than a wide one.
std::int64_t about(std::int64_t total, std::int64_t part) {
  return up(blocks(total, std::max<std::int64_t>((total + part / 2 - 1) / part, 1)), kAmxSide);
}

// Cores are seldom equally fast: with some blocks for each thread, the fast ones can take from the slow. Blocks that a
// thread packs for itself are large, and as many for each are better than more.
constexpr std::int64_t kBlocksPerThread = 2;
constexpr std::int64_t kOwnBlocksPerThread = 3;
constexpr std::int64_t kManyBlocksPerThread = 4;

bool are_shared_well(std::int64_t num_blocks, std::int64_t num_threads) {
  return num_blocks % num_threads == 0 || num_blocks >= kOwnBlocksPerThread * num_threads;
}

std::int64_t half(std::int64_t block) { return std::max(up(block / 2, kAmxSide), kAmxSide); }

std::int64_t num_blocks(const TiledPlan& plan) {
  return blocks(std::min(plan.num_rows, plan.row_stretch), plan.block_rows) *
         blocks(plan.column_stretch, plan.block_columns);
}

// Blocks of so many rows that packing their columns for them alone is worth it, if there are such for all threads.
bool choose_own_blocks(TiledPlan& plan, const TiledKernel& kernel, std::int64_t num_threads) {
  const TiledPlan before = plan;
  const std::int64_t least = std::min(kernel.min_own_rows, plan.row_stretch);
  if (plan.block_rows < least) return false;
  for (const std::int64_t columns : {plan.block_columns, stretch_of(plan.column_stretch, kernel.block_columns)}) {
    plan.block_columns = columns;
    for (std::int64_t count = 1; count * least <= plan.row_stretch; ++count) {
      plan.block_rows = std::min(before.block_rows, stretch_of(plan.row_stretch, blocks(plan.row_stretch, count)));
      if (are_shared_well(num_blocks(plan), num_threads)) return true;
    }
  }
  plan = before;
  return false;
}

// All rows are in each block: what is cut are columns.
void cut_columns(TiledPlan& plan, std::int64_t num_threads) {
  while (!are_shared_well(num_blocks(plan), num_threads) && plan.block_columns > kAmxSide) {
    plan.block_columns = half(plan.block_columns);
  }
}

void cut_blocks(TiledPlan& plan, std::int64_t num_threads) {
  if (num_threads == 1) return;
  while (num_blocks(plan) < kBlocksPerThread * num_threads &&
         (plan.block_rows > kAmxSide || plan.block_columns > kAmxSide)) {
    std::int64_t& longer = plan.block_columns > plan.block_rows ? plan.block_columns : plan.block_rows;
    longer = half(longer);
  }
}

void cut_many_blocks(TiledPlan& plan, const TiledKernel& kernel, std::int64_t num_threads) {
  plan.share_rows = kernel.share_rows;
  plan.block_rows = std::min(plan.block_rows, kernel.many_block);
  plan.block_columns = std::min(plan.block_columns, kernel.many_block);
  for (std::int64_t* const side : {&plan.block_rows, &plan.block_columns}) {
    if (num_blocks(plan) >= kManyBlocksPerThread * num_threads) return;
    *side = std::min(*side, kernel.min_many_block);
  }
}

// Each thread has columns of its own and their rows in some blocks, which another takes from when it is done: of a
// short k all is over soon, and a thread that is held up for a moment would hold up the other.
void share_columns(TiledPlan& plan, const TiledKernel& kernel, std::int64_t num_threads) {
  plan.block_columns = up(blocks(plan.column_stretch, num_threads), kAmxSide);
  plan.block_rows = std::min(plan.block_rows, kernel.shared_block_rows);
  plan.share_rows = blocks(plan.row_stretch, plan.block_rows);
  plan.packs_own_share = true;
}

// Columns about as many as the kernel wants, and so many rows that the sums of all threads' blocks stay in the last
// cache.
void choose_block(TiledPlan& plan, const TiledKernel& kernel, std::int64_t num_threads) {
  plan.block_columns = about(plan.column_stretch, kernel.block_columns);
  const std::int64_t row_bytes = plan.block_columns * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t most = std::max(kernel.max_sums_bytes / num_threads / row_bytes, kernel.min_block_rows);
  plan.block_rows = stretch_of(plan.row_stretch, std::min(most, kernel.block_rows));
}

}  // namespace

TiledPlan plan_tiled(const TiledKernel& kernel, const Gemm& args, std::size_t team_threads) {
  const GemmExtents extents = gemm_extents(args);
  const auto num_threads = static_cast<std::int64_t>(team_threads);
  TiledPlan plan;
  plan.is_swapped = is_swapped(args, extents);
  plan.num_rows = plan.is_swapped ? extents.n : extents.m;
  plan.num_columns = plan.is_swapped ? extents.m : extents.n;
  const std::int64_t all_rows = up(plan.num_rows, kAmxSide);
  const std::int64_t all_columns = up(plan.num_columns, kAmxSide);
  const std::int64_t packed_row_bytes = up(extents.k, kAmxStepK) * 2;
  plan.packs_rows = args.transpose_a == Transpose::kYes && args.transpose_b == Transpose::kNo;
  const std::int64_t most_bytes = plan.packs_rows ? kernel.max_packed_bytes / 2 : kernel.max_packed_bytes;
  const std::int64_t most_packed = most_bytes / std::max<std::int64_t>(packed_row_bytes, 1);
  plan.row_stretch = plan.packs_rows ? stretch_of(all_rows, most_packed) : all_rows;
  plan.column_stretch = all_columns;
  choose_block(plan, kernel, num_threads);
  const bool is_even = num_threads <= kernel.max_even_threads;
  const std::int64_t columns_bytes = plan.column_stretch * packed_row_bytes;
  if (num_threads > 1 && is_even && !plan.packs_rows && extents.k <= kernel.held_k &&
      plan.row_stretch > kernel.min_block_rows && columns_bytes <= kernel.max_shared_bytes * num_threads) {
    plan.packed_columns_bytes = static_cast<std::uint64_t>(columns_bytes);
    share_columns(plan, kernel, num_threads);
  } else if (!plan.packs_rows && is_even && choose_own_blocks(plan, kernel, num_threads)) {
    plan.packed_for = PackedFor::kEach;
  } else if (!plan.packs_rows && plan.num_rows < plan.num_columns && plan.num_rows <= kernel.min_block_rows) {
    plan.packed_for = PackedFor::kEach;
    cut_columns(plan, num_threads);
  } else {
    plan.column_stretch = stretch_of(all_columns, most_packed);
    choose_block(plan, kernel, num_threads);
    plan.packed_columns_bytes = static_cast<std::uint64_t>(plan.column_stretch * packed_row_bytes);
    if (!is_even && !plan.packs_rows) cut_many_blocks(plan, kernel, num_threads);
    cut_blocks(plan, num_threads);
  }

  plan.panel_k = std::min(kernel.panel_k, up(std::max<std::int64_t>(extents.k, 1), kAmxStepK));
  plan.goes_by_rows = extents.k <= kernel.held_k;
  const std::int64_t panel_bytes = plan.panel_k * 2;
  if (plan.packs_rows) {
    plan.packed_rows_bytes = static_cast<std::uint64_t>(plan.row_stretch * packed_row_bytes);
  } else {
    plan.kept_bytes = static_cast<std::uint64_t>(kAmxSide * panel_bytes);
  }
  if (plan.packed_for == PackedFor::kEach) {
    const std::int64_t row_bytes = plan.goes_by_rows ? packed_row_bytes : panel_bytes;
    plan.columns_bytes = static_cast<std::uint64_t>(plan.block_columns * row_bytes);
  }
  if (extents.k > plan.panel_k) {
    const std::int64_t rows = plan.goes_by_rows ? kAmxSide : plan.block_rows;
    plan.sums_bytes = static_cast<std::uint64_t>(rows * plan.block_columns) * sizeof(float);
  }
  return plan;
}

}  // namespace sluice::cpu
