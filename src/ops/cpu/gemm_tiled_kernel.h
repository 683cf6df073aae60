// SPDX-License-Identifier: Apache-2.0
// The product of AMX tiles for gemm_tiled.h: R S^T, where S is packed into column tiles (gemm_pack_avx512.h) and the
// rows of R are loaded as tiles from wherever they are. 32 x 32 sums are four tile registers, and each step multiplies
// two row tiles with two column tiles of 32 bf16 in k. It is a template over what executes tile instructions, so that
// all but those can be tested where there are none.
//
//   registers   sums    0 1      rows 4      columns 6 7
//                       2 3           5
#pragma once

#include <cstddef>
#include <cstdint>

#include "hwy/base.h"

namespace sluice::cpu {

inline constexpr std::int64_t kAmxSide = 32;   // of a tile of sums
inline constexpr std::int64_t kAmxStepK = 32;  // of one multiplication

// Lines that will be needed soon: beside each step num_lines of them, stride_bytes apart, go to the L2; the first of
// the next step is step_bytes further. The last ones may be beyond the end of what there is.
struct TileFetch {
  std::uintptr_t first = 0;
  std::int64_t num_lines = 0;
  std::int64_t stride_bytes = 0;
  std::int64_t step_bytes = 0;
};

// Where the tiles of 32 rows of R are. As given here: packed by pack_row_tiles().
struct TileRows {
  const std::byte* first = nullptr;
  std::int64_t row_bytes = 64;     // from a row to the next,
  std::int64_t half_bytes = 1024;  // from the first of them to the 17th,
  std::int64_t step_bytes = 2048;  // from a step in k to the next
};

struct TileProduct {
  const float* sums = nullptr;  // (32, 32), dense: what is added to
  float* to = nullptr;          // where the result goes, as dense
  TileRows rows;
  const std::byte* columns = nullptr;
  std::byte* kept = nullptr;  // where the rows are to go, packed; only multiply_and_keep looks at it
  std::int64_t num_steps = 0;
  bool is_first = false;             // there are no sums yet
  const float* next_sums = nullptr;  // those of the next tile, which come to the L1; may be none
  TileFetch fetch[4];                // rows, columns, and of C the left and the right lines
};

// The sizes were measured on Emerald Rapids with 1 and 2 threads. 32 kept rows (32 KiB) are at home in an L1 of 48 KiB,
// a panel of 512 columns of S (512 KiB) in an L2 of 2 MiB. Products of what is there reach 0.8 of the peak. The sums of
// a block come and go in one long run for every panel, which the last cache keeps up with: that costs less than packing
// a panel, or fetching it, for fewer rows.
struct TiledKernel {
  std::int64_t panel_k = 512;  // a multiple of kAmxStepK
  std::int64_t block_rows = 4096;
  std::int64_t min_block_rows = 512;  // whatever the caches; of no more rows, threads pack their own columns anyway
  std::int64_t block_columns = 512;   // about
  std::int64_t min_own_rows = 2048;   // of a block whose columns a thread packs for itself, unless R has no more
  std::int64_t max_sums_bytes = 16 << 20;    // of all threads' blocks: what the last cache holds beside the operands
  std::int64_t max_packed_bytes = 32 << 20;  // of what is packed for all threads, unless 32 columns are more

  void (*multiply)(const TileProduct& tile) = nullptr;
  void (*multiply_and_keep)(const TileProduct& tile) = nullptr;
  // Around the multiplications of one thread.
  void (*enter)() = nullptr;
  void (*leave)() = nullptr;
};

enum class RowTiles : std::uint8_t { kUsed, kUsedAndKept };

}  // namespace sluice::cpu

HWY_PUSH_ATTRIBUTES("amx-tile,amx-bf16")
namespace sluice::cpu {

// A Unit has, for registers that are template arguments: zero<t>(), load<t>(from, stride_bytes), load_once<t>(from,
// stride_bytes) for what is not to stay in the L1, store<t>(to, stride_bytes), multiply<sums, rows, columns>(), and
// enter() and leave() around them.
template <typename Unit, RowTiles kRowTiles>
void multiply_tiled(const TileProduct& tile) {
  constexpr std::int64_t kTileBytes = 1024;
  constexpr std::int64_t kLineBytes = 64;
  constexpr std::int64_t kStepBytes = 2 * kTileBytes;
  constexpr std::int64_t kSumRowBytes = kAmxSide * std::int64_t{sizeof(float)};
  constexpr std::int64_t kSumsBytes = kAmxSide * kSumRowBytes;
  constexpr std::int64_t kSumsBytesPerStep = 4 * kLineBytes;
  constexpr std::int64_t kRight = kAmxSide / 2;
  constexpr std::int64_t kBelow = kAmxSide * kAmxSide / 2;
  if (tile.is_first) {
    Unit::template zero<0>();
    Unit::template zero<1>();
    Unit::template zero<2>();
    Unit::template zero<3>();
  } else {
    Unit::template load<0>(tile.sums, kSumRowBytes);
    Unit::template load<1>(tile.sums + kRight, kSumRowBytes);
    Unit::template load<2>(tile.sums + kBelow, kSumRowBytes);
    Unit::template load<3>(tile.sums + kBelow + kRight, kSumRowBytes);
  }
  const std::byte* rows = tile.rows.first;
  const std::byte* columns = tile.columns;
  std::byte* kept = tile.kept;
  for (std::int64_t step = 0; step < tile.num_steps; ++step) {
    // Columns come from the L2, each tile of them once, past the L1, where the rows are.
    Unit::template load_once<6>(columns, kLineBytes);
    Unit::template load<4>(rows, tile.rows.row_bytes);
    Unit::template multiply<0, 4, 6>();
    Unit::template load<5>(rows + tile.rows.half_bytes, tile.rows.row_bytes);
    Unit::template multiply<2, 5, 6>();
    Unit::template load_once<7>(columns + kTileBytes, kLineBytes);
    Unit::template multiply<1, 4, 7>();
    Unit::template multiply<3, 5, 7>();
    if constexpr (kRowTiles == RowTiles::kUsedAndKept) {
      Unit::template store<4>(kept, kLineBytes);
      Unit::template store<5>(kept + kTileBytes, kLineBytes);
      kept += kStepBytes;
    }
    for (const TileFetch& fetch : tile.fetch) {
      std::uintptr_t at = fetch.first + static_cast<std::uintptr_t>(step * fetch.step_bytes);
      for (std::int64_t line = 0; line < fetch.num_lines;
           ++line, at += static_cast<std::uintptr_t>(fetch.stride_bytes)) {
        __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 2);
      }
    }
    if (tile.next_sums != nullptr && step < kSumsBytes / kSumsBytesPerStep) {
      const auto* next = reinterpret_cast<const std::byte*>(tile.next_sums) + step * kSumsBytesPerStep;
      for (std::int64_t at = 0; at < kSumsBytesPerStep; at += kLineBytes) __builtin_prefetch(next + at, 0, 3);
    }
    rows += tile.rows.step_bytes;
    columns += kStepBytes;
  }
  Unit::template store<0>(tile.to, kSumRowBytes);
  Unit::template store<1>(tile.to + kRight, kSumRowBytes);
  Unit::template store<2>(tile.to + kBelow, kSumRowBytes);
  Unit::template store<3>(tile.to + kBelow + kRight, kSumRowBytes);
}

}  // namespace sluice::cpu
HWY_POP_ATTRIBUTES

namespace sluice::cpu {

template <typename Unit>
TiledKernel tiled_kernel_on() {
  TiledKernel kernel;
  kernel.multiply = multiply_tiled<Unit, RowTiles::kUsed>;
  kernel.multiply_and_keep = multiply_tiled<Unit, RowTiles::kUsedAndKept>;
  kernel.enter = Unit::enter;
  kernel.leave = Unit::leave;
  return kernel;
}

}  // namespace sluice::cpu
