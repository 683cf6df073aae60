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

#include "hwy/base.h"
#include "ops/cpu/gemm_kernel.h"
#include "ops/cpu/gemm_tiled_finish.h"

namespace sluice::cpu {

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

// 32 rows of R with the column tiles of S that a block has.
struct TileStrip {
  std::int64_t num_tiles = 0;
  std::int64_t num_steps = 0;
  std::int64_t num_near_steps = 0;  // the first: their rows stay in the L1
  TileRows rows;
  std::byte* kept = nullptr;           // where the first tile packs the rows for the others; none: they are packed
  const std::byte* columns = nullptr;  // packed
  std::int64_t column_bytes = 0;       // of a tile
  float* sums = nullptr;               // (32, 32) for each tile, dense: those of the panels before, and of this
  bool is_first = false;               // there are none before
  const GemmOutput* output = nullptr;  // none: this panel is not the last
  GemmPlace place;                     // of the first tile
  bool is_streamed = false;            // whole rows of tiles go to C past the caches
  float* summed = nullptr;             // (32, 32)
  float* turned = nullptr;             // as large; tiles of C are transposed, and follow one another down
  TilePending* pending = nullptr;      // the tile before, and then the last one of this strip

  TileFetch fetch[4];
  std::int64_t num_fetch = 0;
};

// The sizes were measured on Emerald Rapids with 1 and 2 threads. 32 kept rows (32 KiB) are at home in an L1 of 48 KiB,
// which has room for what comes and goes beside them if the last of them are loaded past it; a panel of 512 columns of
// S (512 KiB) is in an L2 of 2 MiB. The sums of a block come and go in one long run for every panel, which the last
// cache keeps up with: that costs less than packing a panel, or fetching it, for fewer rows.
struct TiledKernel {
  std::int64_t panel_k = 512;  // a multiple of kAmxStepK
  std::int64_t held_k = 1024;  // of no more than this all panels of a block's columns are in the L2 at once
  std::int64_t near_k = 448;   // of rows that are in the L1
  std::int64_t block_rows = 4096;
  std::int64_t min_block_rows = 512;  // whatever the caches; of no more rows, threads pack their own columns anyway
  std::int64_t block_columns = 512;   // about
  std::int64_t min_own_rows = 2048;   // of a block whose columns a thread packs for itself, unless R has no more
  // Of few threads that share a short k: rows of their blocks, and what each may have of packed columns, half of an L2.
  // 1,024 cubed on two cores comes to 0.65 of the peak in each run, where halves for each came to 0.44 to 0.67.
  std::int64_t shared_block_rows = 256;
  std::int64_t max_shared_bytes = 1 << 20;
  // Of more threads some are slowed by others' work on their cores, and the rest waits unless blocks are small and
  // many: with 8 threads on a busy machine, large blocks left a quarter of the time idle. Columns are then packed for
  // all.
  std::int64_t max_even_threads = 2;
  std::int64_t many_block = 256;      // rows and columns of a block then,
  std::int64_t min_many_block = 128;  // and where blocks would be too few
  // Of blocks that follow each other down, in shares of the threads: less of either operand for each thread, which it
  // has in its L2 from one block to the next. Small cubes are up to half as fast again.
  std::int64_t share_rows = 4;
  std::int64_t max_sums_bytes = 16 << 20;    // of all threads' blocks: what the last cache holds beside the operands
  std::int64_t max_packed_bytes = 32 << 20;  // of what is packed for all threads, unless 32 columns are more
  // Of a C that is written past the caches: reading it for nothing, line by line, costs about as much as whoever uses
  // it next loses, and more where no cache would have kept it.
  std::int64_t min_streamed_bytes = 4 << 20;

  void (*multiply)(const TileStrip& strip) = nullptr;
  void (*finish)(TilePending& pending) = nullptr;
  // Around these, in each thread; what enter() returns is for leave().
  std::uint32_t (*enter)() = nullptr;
  void (*leave)(std::uint32_t entered) = nullptr;
};

enum class RowTiles : std::uint8_t { kUsed, kUsedAndKept };

}  // namespace sluice::cpu

HWY_PUSH_ATTRIBUTES("amx-tile,amx-bf16,avx,avx2,fma,avx512f,avx512bw,avx512vl")
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

enum class TileStep : std::uint8_t { kFirst, kOther };

template <typename Unit, TileStep kStep, int kSums>
HWY_INLINE void begin_sums(float* pending) {
  if constexpr (kStep == TileStep::kFirst) {
    store_sums<Unit, kSums>(pending);
    Unit::template zero<kSums>();
  }
}

// One step, the first of which sends the sums of the tile before to their place, each as it becomes ready.
template <typename Unit, RowTiles kRowTiles, TileStep kStep>
HWY_INLINE void multiply_step(const std::byte* columns, const std::byte* rows, const TileRows& from, bool is_near,
                              float* pending, std::byte* kept) {
  constexpr std::int64_t kTileBytes = 1024;
  constexpr std::int64_t kLineBytes = 64;
  // Columns come from the L2, each tile of them once, past the L1, where the rows are.
  Unit::template load_once<6>(columns, kLineBytes);
  load_rows<Unit, 4>(rows, from.row_bytes, is_near);
  begin_sums<Unit, kStep, 0>(pending);
  Unit::template multiply<0, 4, 6>();
  load_rows<Unit, 5>(rows + from.half_bytes, from.row_bytes, is_near);
  begin_sums<Unit, kStep, 2>(pending);
  Unit::template multiply<2, 5, 6>();
  Unit::template load_once<7>(columns + kTileBytes, kLineBytes);
  begin_sums<Unit, kStep, 1>(pending);
  Unit::template multiply<1, 4, 7>();
  begin_sums<Unit, kStep, 3>(pending);
  Unit::template multiply<3, 5, 7>();
  if constexpr (kRowTiles == RowTiles::kUsedAndKept) {
    Unit::template store<4>(kept, kLineBytes);
    Unit::template store<5>(kept + kTileBytes, kLineBytes);
  }
}

HWY_INLINE void fetch_beside(const TileStrip& strip, std::int64_t tile, std::int64_t step) {
  for (std::int64_t idx = 0; idx < strip.num_fetch; ++idx) fetch_lines(strip.fetch[idx], tile, step);
}

// A tile of a strip, and beside its steps what is left of the tile before: `stored` is where that goes first.
template <typename Unit, RowTiles kRowTiles, RestOf kKind, typename Write>
HWY_INLINE void sum_tile(const TileStrip& strip, std::int64_t tile, const TileRows& from, float* stored,
                         const TileRest& rest, std::int64_t rows_per_step, const Write& write) {
  constexpr std::int64_t kStepBytes = 2048;
  const std::byte* rows = from.first;
  const std::byte* columns = strip.columns + tile * strip.column_bytes;
  std::byte* kept = strip.kept;
  const auto is_near = [&](std::int64_t step) { return kRowTiles == RowTiles::kUsed && step < strip.num_near_steps; };
  multiply_step<Unit, kRowTiles, TileStep::kFirst>(columns, rows, from, is_near(0), stored, kept);
  fetch_beside(strip, tile, 0);
  if constexpr (kKind == RestOf::kWrite) write();
  constexpr bool kHasRows = kKind != RestOf::kNothing && kKind != RestOf::kWrite;
  std::int64_t row = 0;
  for (std::int64_t step = 1; step < strip.num_steps; ++step) {
    rows += from.step_bytes;
    columns += kStepBytes;
    if constexpr (kRowTiles == RowTiles::kUsedAndKept) kept += kStepBytes;
    multiply_step<Unit, kRowTiles, TileStep::kOther>(columns, rows, from, is_near(step), nullptr, kept);
    if (kKind == RestOf::kTurn && step <= kTurns) {
      turn<Unit>(rest, step - 1);
    } else if constexpr (kHasRows) {
      const std::int64_t end = std::min(row + rows_per_step, rest.num_rows);
      for (; row < end; ++row) finish_row<Unit, kKind>(rest, row);
    }
    fetch_beside(strip, tile, step);
  }
  if constexpr (kHasRows) {
    for (std::int64_t idx = strip.num_steps - 1; kKind == RestOf::kTurn && idx < kTurns; ++idx) turn<Unit>(rest, idx);
    for (; row < rest.num_rows; ++row) finish_row<Unit, kKind>(rest, row);
  }
}

inline TilePending pending_tile(const TileStrip& strip, std::int64_t tile) {
  float* const sums = strip.sums + tile * kAmxSide * kAmxSide;
  if (strip.output == nullptr && strip.is_first) return {.sums = sums};
  TilePending pending{.sums = strip.summed, .before = strip.is_first ? nullptr : sums};
  if (strip.output == nullptr) return pending;
  pending.output = strip.output;
  pending.place = strip.place;
  pending.turned = strip.turned;
  pending.is_streamed = strip.is_streamed;
  const bool is_turned = strip.turned != nullptr;
  std::int64_t& first = is_turned ? pending.place.m : pending.place.n;
  std::int64_t& count = is_turned ? pending.place.num_m : pending.place.num_n;
  first += tile * kAmxSide;
  count = std::min(kAmxSide, count - tile * kAmxSide);
  return pending;
}

// The first tile, beside which the last one of another strip is finished.
template <typename Unit, RowTiles kRowTiles>
void sum_first_tile(const TileStrip& strip) {
  const TilePending pending = *strip.pending;
  const TileRest rest = kind_of(pending) == RestOf::kNothing ? TileRest{} : rest_of(pending);
  with_kind(kind_of(pending), [&]<RestOf kKind>() {
    sum_tile<Unit, kRowTiles, kKind>(strip, 0, strip.rows, pending.sums, rest, rows_beside_step<kKind>(strip.num_steps),
                                     [&] { write_tile<Unit>(pending); });
  });
}

// The others: what is left of the tile before is of one kind.
template <typename Unit>
void sum_other_tiles(const TileStrip& strip) {
  const TileRows rows = strip.kept == nullptr ? strip.rows : TileRows{.first = strip.kept};
  TilePending pending = pending_tile(strip, 0);
  const RestOf kind = kind_of(pending);
  TileRest rest = kind == RestOf::kNothing ? TileRest{} : rest_of(pending);
  with_kind(kind, [&]<RestOf kKind>() {
    const std::int64_t rows_per_step = rows_beside_step<kKind>(strip.num_steps);
    for (std::int64_t tile = 1; tile < strip.num_tiles; ++tile) {
      sum_tile<Unit, RowTiles::kUsed, kKind>(strip, tile, rows, pending.sums, rest, rows_per_step,
                                             [&] { write_tile<Unit>(pending_tile(strip, tile - 1)); });
      if constexpr (kKind == RestOf::kNothing) pending.sums += kAmxSide * kAmxSide;
      rest.to += rest.tile_bytes;
      if (rest.before != nullptr) rest.before += kAmxSide * kAmxSide;
    }
  });
}

// A Unit has, for registers that are template arguments: zero<t>(), load<t>(from, stride_bytes), load_once<t>(from,
// stride_bytes) for what is not to stay in the L1, store<t>(to, stride_bytes), multiply<sums, rows, columns>(), and
// enter() and leave() around them. For 32 sums: add(to, sums), add_total(to, before, sums), narrow(to, sums,
// is_streamed) as to_bf16() rounds, narrow_total(to, before, sums, is_streamed). narrow_turned(to, sums, before) makes
// 16 dense rows of 16 columns of a tile, with or without those before, and copy_line(to, from, is_streamed) is for such
// a row. What is streamed is a whole line.
template <typename Unit>
void multiply_tiled(const TileStrip& strip) {
  if (strip.num_steps == 0) {
    for (std::int64_t tile = 0; tile < strip.num_tiles; ++tile) {
      finish_tile<Unit>(*strip.pending);
      Unit::template zero<0>();
      Unit::template zero<1>();
      Unit::template zero<2>();
      Unit::template zero<3>();
      *strip.pending = pending_tile(strip, tile);
    }
    return;
  }
  if (strip.kept == nullptr) {
    sum_first_tile<Unit, RowTiles::kUsed>(strip);
  } else {
    sum_first_tile<Unit, RowTiles::kUsedAndKept>(strip);
  }
  sum_other_tiles<Unit>(strip);
  *strip.pending = pending_tile(strip, strip.num_tiles - 1);
}

}  // namespace sluice::cpu
HWY_POP_ATTRIBUTES

namespace sluice::cpu {

template <typename Unit>
TiledKernel tiled_kernel_on() {
  TiledKernel kernel;
  kernel.multiply = multiply_tiled<Unit>;
  kernel.finish = finish_tile<Unit>;
  kernel.enter = Unit::enter;
  kernel.leave = Unit::leave;
  return kernel;
}

}  // namespace sluice::cpu
