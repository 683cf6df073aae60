// SPDX-License-Identifier: Apache-2.0
// How gemm_tiled.h cuts up a product R S^T. In which order one element of C is summed depends on panel_k and on nothing
// else. R is an operand with k along, whose tiles are loaded from where it lies; where there is none, it is packed.
//
//   packed for all   S is packed once, by all threads, a stretch of rows at a time; a block is summed for some rows of
//                    R and some of S
//   packed by each   a thread packs the rows of S that it is about to use, which then need no way through memory, and
//                    sums them with as many rows of R as can be: where S has rows enough for every thread, or R so few
//                    that what is packed for all would be used too seldom
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/gemm_tiled_kernel.h"
#include "ops/gemm.h"

namespace sluice::cpu {

enum class PackedFor : std::uint8_t { kAll, kEach };

struct TiledPlan {
  bool is_swapped = false;  // R is op(B)^T and S is op(A), and tiles are transposed when they are written
  PackedFor packed_for = PackedFor::kAll;
  std::int64_t num_rows = 0;        // of R
  std::int64_t num_columns = 0;     // rows of S
  bool packs_rows = false;          // R too is packed for all
  std::int64_t row_stretch = 0;     // rows, and columns, that one loop of the threads goes over: what is packed for all
  std::int64_t column_stretch = 0;  // at once
  std::int64_t block_rows = 0;      // multiples of kAmxSide
  std::int64_t block_columns = 0;   // multiples of kAmxSide
  std::int64_t share_rows = 0;   // of blocks: if any, blocks follow each other down so many, in shares of the threads
  bool packs_own_share = false;  // each thread begins with packing the columns that its share has
  std::int64_t panel_k = 0;      // a multiple of kAmxStepK
  bool goes_by_rows = false;     // all panels for 32 rows after the other, instead of all rows for panel after panel

  // Scratch of all.
  std::uint64_t packed_rows_bytes = 0;
  std::uint64_t packed_columns_bytes = 0;
  // Scratch of each thread: S where it packs for itself, 32 kept rows of R, and sums from panel to panel: of a
  // block, or of its 32 rows.
  std::uint64_t columns_bytes = 0;
  std::uint64_t kept_bytes = 0;
  std::uint64_t sums_bytes = 0;
};

TiledPlan plan_tiled(const TiledKernel& kernel, const Gemm& args, std::size_t team_threads);

}  // namespace sluice::cpu
