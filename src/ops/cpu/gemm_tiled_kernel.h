// SPDX-License-Identifier: Apache-2.0
// The product of AMX tiles for gemm_tiled.h: R S^T, where S is packed into column tiles (gemm_pack_avx512.h) and the
// rows of R are loaded as tiles from wherever they are. 32 x 32 sums are four tile registers, and each step multiplies
// two row tiles with two column tiles of 32 bf16 in k. It is a template over what executes tile instructions, so that
// all but those can be tested where there are none.
//
//   registers   sums    0 1      rows 4      columns 6 7
//                       2 3           5
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bf16.h"
#include "hwy/base.h"
#include "ops/cpu/gemm_kernel.h"
#include "ops/cpu/gemm_pack_avx512.h"
#include "ops/cpu/gemm_write_avx512.h"

namespace sluice::cpu {

inline constexpr std::int64_t kAmxSide = 32;   // of a tile of sums
inline constexpr std::int64_t kAmxStepK = 32;  // of one multiplication

// Lines that will be needed soon: beside each step num_lines of them, stride_bytes apart, go to the L2; the first of
// the next step is step_bytes further, that of the next tile tile_bytes. The last ones may be beyond the end of what
// there is.
struct TileFetch {
  std::uintptr_t first = 0;
  std::int64_t num_lines = 0;
  std::int64_t stride_bytes = 0;
  std::int64_t step_bytes = 0;
  std::int64_t tile_bytes = 0;
  std::int64_t num_tiles = 0;
};

// Where the tiles of 32 rows of R are. As given here: packed by pack_row_tiles().
struct TileRows {
  const std::byte* first = nullptr;
  std::int64_t row_bytes = 64;     // from a row to the next,
  std::int64_t half_bytes = 1024;  // from the first of them to the 17th,
  std::int64_t step_bytes = 2048;  // from a step in k to the next
};

// 32 rows of R with the column tiles of S that a block has. Between two tiles there is next to nothing to do, for the
// CPU looks ahead about one step: whatever it does there, it does while no tile is multiplied.
struct TileStrip {
  std::int64_t num_tiles = 0;
  std::int64_t num_steps = 0;
  std::int64_t num_near_steps = 0;  // the first: their rows stay in the L1
  TileRows rows;
  std::byte* kept = nullptr;           // where the first tile packs the rows for the others; none: they are packed
  const std::byte* columns = nullptr;  // packed
  std::int64_t column_bytes = 0;       // of a tile
  float* sums = nullptr;               // (32, 32) for each tile, dense: what is added to, and where the result goes
  bool is_first = false;               // there are no sums yet
  bool has_next_sums = false;          // those of the next strip follow

  // Sums that are complete go to C instead; where they only replace what was there, and are narrowed, beside the steps
  // of the next tile.
  const GemmOutput* output = nullptr;  // none: they are not complete
  GemmPlace place;                     // of the first tile
  bool is_turned = false;              // tiles of C are transposed, and follow one another down
  float* summed = nullptr;             // (32, 32)
  float* turned = nullptr;             // as large

  TileFetch fetch[4];  // rows, columns, and of C the left and the right lines
};

// The sizes were measured on Emerald Rapids with 1 and 2 threads. 32 kept rows (32 KiB) are at home in an L1 of 48 KiB,
// a panel of 512 columns of S (512 KiB) in an L2 of 2 MiB. Products of what is there reach 0.8 of the peak. The sums of
// a block come and go in one long run for every panel, which the last cache keeps up with: that costs less than packing
// a panel, or fetching it, for fewer rows.
struct TiledKernel {
  std::int64_t panel_k = 512;       // a multiple of kAmxStepK
  std::int64_t one_panel_k = 1024;  // no more than this is one panel, which needs no sums between
  std::int64_t near_k = 512;        // of rows that are in the L1
  std::int64_t block_rows = 4096;
  std::int64_t min_block_rows = 512;  // whatever the caches; of no more rows, threads pack their own columns anyway
  std::int64_t block_columns = 512;   // about
  std::int64_t min_own_rows = 2048;   // of a block whose columns a thread packs for itself, unless R has no more
  std::int64_t max_sums_bytes = 16 << 20;    // of all threads' blocks: what the last cache holds beside the operands
  std::int64_t max_packed_bytes = 32 << 20;  // of what is packed for all threads, unless 32 columns are more

  void (*multiply)(const TileStrip& strip) = nullptr;
  // Around the multiplications of one thread.
  void (*enter)() = nullptr;
  void (*leave)() = nullptr;
};

enum class RowTiles : std::uint8_t { kUsed, kUsedAndKept };

}  // namespace sluice::cpu

HWY_PUSH_ATTRIBUTES("amx-tile,amx-bf16,avx512f")
namespace sluice::cpu {

template <typename Unit, int kTile>
HWY_INLINE void load_rows(const std::byte* from, std::int64_t stride_bytes, bool is_near) {
  if (is_near) {
    Unit::template load<kTile>(from, stride_bytes);
  } else {
    Unit::template load_once<kTile>(from, stride_bytes);
  }
}

HWY_INLINE void fetch_lines(const TileFetch& fetch, std::int64_t tile, std::int64_t step) {
  if (tile >= fetch.num_tiles) return;
  std::uintptr_t at = fetch.first + static_cast<std::uintptr_t>(tile * fetch.tile_bytes + step * fetch.step_bytes);
  for (std::int64_t line = 0; line < fetch.num_lines; ++line, at += static_cast<std::uintptr_t>(fetch.stride_bytes)) {
    __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 2);
  }
}

// A finished tile on its way to C: rows_per_step beside each step of the next.
struct TileWrite {
  std::byte* to = nullptr;
  std::int64_t row_bytes = 0;
  const float* sums = nullptr;
  std::int64_t num_rows = 0;
  std::int64_t rows_per_step = 0;
};

template <typename Unit>
HWY_INLINE void write_rows(TileWrite& write) {
  for (std::int64_t row = 0; row < write.rows_per_step && write.num_rows > 0; ++row, --write.num_rows) {
    Unit::narrow(write.to, write.sums);
    write.to += write.row_bytes;
    write.sums += kAmxSide;
  }
}

template <typename Unit, RowTiles kRowTiles>
HWY_INLINE void sum_tile(const TileStrip& strip, std::int64_t tile, const TileRows& from, TileWrite write) {
  constexpr std::int64_t kTileBytes = 1024;
  constexpr std::int64_t kLineBytes = 64;
  constexpr std::int64_t kStepBytes = 2 * kTileBytes;
  constexpr std::int64_t kSumRowBytes = kAmxSide * std::int64_t{sizeof(float)};
  constexpr std::int64_t kSumsBytes = kAmxSide * kSumRowBytes;
  constexpr std::int64_t kSumsBytesPerStep = 4 * kLineBytes;
  constexpr std::int64_t kRight = kAmxSide / 2;
  constexpr std::int64_t kBelow = kAmxSide * kAmxSide / 2;
  float* const sums = strip.sums + tile * kAmxSide * kAmxSide;
  if (strip.is_first) {
    Unit::template zero<0>();
    Unit::template zero<1>();
    Unit::template zero<2>();
    Unit::template zero<3>();
  } else {
    Unit::template load<0>(sums, kSumRowBytes);
    Unit::template load<1>(sums + kRight, kSumRowBytes);
    Unit::template load<2>(sums + kBelow, kSumRowBytes);
    Unit::template load<3>(sums + kBelow + kRight, kSumRowBytes);
  }
  const std::byte* rows = from.first;
  const std::byte* columns = strip.columns + tile * strip.column_bytes;
  std::byte* kept = strip.kept;
  const auto* next = reinterpret_cast<const std::byte*>(sums) + kSumsBytes;
  const std::byte* const next_end = strip.has_next_sums ? next + kSumsBytes : next;
  for (std::int64_t step = 0; step < strip.num_steps; ++step) {
    const bool is_near = kRowTiles == RowTiles::kUsed && step < strip.num_near_steps;
    // Columns come from the L2, each tile of them once, past the L1, where the rows are.
    Unit::template load_once<6>(columns, kLineBytes);
    load_rows<Unit, 4>(rows, from.row_bytes, is_near);
    Unit::template multiply<0, 4, 6>();
    load_rows<Unit, 5>(rows + from.half_bytes, from.row_bytes, is_near);
    Unit::template multiply<2, 5, 6>();
    Unit::template load_once<7>(columns + kTileBytes, kLineBytes);
    Unit::template multiply<1, 4, 7>();
    Unit::template multiply<3, 5, 7>();
    if constexpr (kRowTiles == RowTiles::kUsedAndKept) {
      Unit::template store<4>(kept, kLineBytes);
      Unit::template store<5>(kept + kTileBytes, kLineBytes);
      kept += kStepBytes;
    }
    write_rows<Unit>(write);
    for (const TileFetch& fetch : strip.fetch) fetch_lines(fetch, tile, step);
    for (std::int64_t at = 0; next < next_end && at < kSumsBytesPerStep; at += kLineBytes, next += kLineBytes) {
      __builtin_prefetch(next, 0, 3);
    }
    rows += from.step_bytes;
    columns += kStepBytes;
  }
  float* const to = strip.output != nullptr ? strip.summed : sums;
  Unit::template store<0>(to, kSumRowBytes);
  Unit::template store<1>(to + kRight, kSumRowBytes);
  Unit::template store<2>(to + kBelow, kSumRowBytes);
  Unit::template store<3>(to + kBelow + kRight, kSumRowBytes);
}

HWY_INLINE GemmPlace place_of_tile(const TileStrip& strip, std::int64_t tile) {
  GemmPlace place = strip.place;
  std::int64_t& first = strip.is_turned ? place.m : place.n;
  std::int64_t& count = strip.is_turned ? place.num_m : place.num_n;
  first += tile * kAmxSide;
  count = std::min(kAmxSide, count - tile * kAmxSide);
  return place;
}

// Writes a finished tile, or says how to beside the next.
inline TileWrite finish_tile(const TileStrip& strip, std::int64_t tile) {
  if (strip.is_turned) transpose_sums(strip.turned, strip.summed);
  const float* const sums = strip.is_turned ? strip.turned : strip.summed;
  const GemmOutput& output = *strip.output;
  const GemmPlace place = place_of_tile(strip, tile);
  const bool is_whole = output.c_dtype == DType::kBF16 && output.into == Into::kOverwrite && output.bias == nullptr &&
                        place.num_n == kAmxSide;
  if (!is_whole || strip.num_steps == 0 || tile + 1 == strip.num_tiles) {
    write_avx512(output, place, sums, kAmxSide);
    return {};
  }
  const std::int64_t row_bytes = output.num_columns * std::int64_t{sizeof(BF16)};
  return {.to = output.c + place.m * row_bytes + place.n * std::int64_t{sizeof(BF16)},
          .row_bytes = row_bytes,
          .sums = sums,
          .num_rows = place.num_m,
          .rows_per_step = (place.num_m + strip.num_steps - 1) / strip.num_steps};
}

// A Unit has, for registers that are template arguments: zero<t>(), load<t>(from, stride_bytes), load_once<t>(from,
// stride_bytes) for what is not to stay in the L1, store<t>(to, stride_bytes), multiply<sums, rows, columns>(), and
// enter() and leave() around them. narrow(to, sums) rounds 32 sums as to_bf16() does.
template <typename Unit>
void multiply_tiled(const TileStrip& strip) {
  TileWrite write;
  for (std::int64_t tile = 0; tile < strip.num_tiles; ++tile) {
    if (strip.kept == nullptr) {
      sum_tile<Unit, RowTiles::kUsed>(strip, tile, strip.rows, write);
    } else if (tile == 0) {
      sum_tile<Unit, RowTiles::kUsedAndKept>(strip, tile, strip.rows, write);
    } else {
      sum_tile<Unit, RowTiles::kUsed>(strip, tile, {.first = strip.kept}, write);
    }
    if (strip.output != nullptr) write = finish_tile(strip, tile);
  }
}

}  // namespace sluice::cpu
HWY_POP_ATTRIBUTES

namespace sluice::cpu {

template <typename Unit>
TiledKernel tiled_kernel_on() {
  TiledKernel kernel;
  kernel.multiply = multiply_tiled<Unit>;
  kernel.enter = Unit::enter;
  kernel.leave = Unit::leave;
  return kernel;
}

}  // namespace sluice::cpu
