// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_tiled_plan.h"

#include <algorithm>

namespace sluice::cpu {
namespace {

std::int64_t up(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }
std::int64_t blocks(std::int64_t value, std::int64_t block) { return (value + block - 1) / block; }

// Where both have k along, the longer operand is R, so that less is packed. Where neither has, both are packed, and
// tiles are written as they are.
bool is_swapped(const Gemm& args, const GemmExtents& extents) {
  const bool a_has_k_along = args.transpose_a == Transpose::kNo;
  const bool b_has_k_along = args.transpose_b == Transpose::kYes;
  return b_has_k_along && (!a_has_k_along || extents.n >= extents.m);
}

// As even parts as can be, none larger than `most`, of what is a multiple of kAmxSide.
std::int64_t stretch_of(std::int64_t total, std::int64_t most) {
  return up(blocks(total, blocks(total, std::max(most / kAmxSide * kAmxSide, kAmxSide))), kAmxSide);
}

// Cores are seldom equally fast: with some blocks for each thread, the fast ones can take from the slow. Blocks of all
// rows are large.
constexpr std::int64_t kBlocksPerThread = 2;
constexpr std::int64_t kOwnBlocksPerThread = 3;

std::int64_t half(std::int64_t block) { return std::max(up(block / 2, kAmxSide), kAmxSide); }

void choose_blocks(TiledPlan& plan, std::size_t num_threads) {
  const auto num_blocks = [&] {
    return blocks(std::min(plan.num_rows, plan.row_stretch), plan.block_rows) *
           blocks(plan.column_stretch, plan.block_columns);
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

TiledPlan plan_tiled(const TiledKernel& kernel, const Gemm& args, std::size_t num_threads) {
  const GemmExtents extents = gemm_extents(args);
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
  if (!plan.packs_rows && plan.num_rows < plan.num_columns && plan.num_rows <= kernel.max_own_rows) {
    plan.packed_for = PackedFor::kEach;
    plan.column_stretch = all_columns;
    plan.block_rows = all_rows;
    plan.block_columns = std::min(kernel.own_columns, all_columns);
  } else {
    plan.column_stretch = stretch_of(all_columns, most_packed);
    plan.packed_columns_bytes = static_cast<std::uint64_t>(plan.column_stretch * packed_row_bytes);
    plan.block_rows = std::min(kernel.block_rows, plan.row_stretch);
    plan.block_columns = std::min(kernel.block_columns, plan.column_stretch);
  }
  choose_blocks(plan, num_threads);

  const std::int64_t panel_bytes = std::min(kernel.panel_k * 2, packed_row_bytes);
  if (plan.packs_rows) {
    plan.packed_rows_bytes = static_cast<std::uint64_t>(plan.row_stretch * packed_row_bytes);
  } else {
    plan.kept_bytes = static_cast<std::uint64_t>(kAmxSide * panel_bytes);
  }
  if (plan.packed_for == PackedFor::kEach) {
    plan.columns_bytes = static_cast<std::uint64_t>(plan.block_columns * panel_bytes);
  }
  plan.sums_bytes = static_cast<std::uint64_t>(plan.block_rows * plan.block_columns) * sizeof(float);
  return plan;
}

}  // namespace sluice::cpu
