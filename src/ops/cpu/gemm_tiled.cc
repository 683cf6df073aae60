// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_tiled.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>
#include <vector>

#include "base/check.h"
#include "ops/cpu/gemm_kernel.h"
#include "ops/cpu/gemm_pack_avx512.h"
#include "ops/cpu/gemm_scratch.h"
#include "ops/cpu/gemm_shares.h"
#include "ops/cpu/gemm_tiled_plan.h"
#include "ops/cpu/gemm_write_avx512.h"

namespace sluice::cpu {
namespace {

constexpr std::int64_t kElementBytes = 2;
constexpr std::int64_t kLineBytes = 64;
constexpr std::int64_t kTileSums = kAmxSide * kAmxSide;

std::int64_t blocks(std::int64_t value, std::int64_t block) { return (value + block - 1) / block; }
std::uintptr_t address(const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at); }
std::int64_t padded(std::int64_t k) { return blocks(k, kAmxStepK) * kAmxStepK; }

// Rows of an operand that are packed as one item: they are long runs where k is along, and need company where it is
// not.
std::int64_t packed_width(const GemmSource& from) { return from.k_stride == 1 ? kAmxSide : 2 * kAmxSide; }

// Counts down to zero what others do; whoever needs it done waits.
class Countdown {
 public:
  void start(std::int64_t count) { left_.store(static_cast<std::int32_t>(count), std::memory_order_relaxed); }
  void count() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_all();
  }
  // What is left is under way, so a short while is the rule.
  void wait() const {
    constexpr int kSpins = 2000;
    for (int spin = 0; spin < kSpins; ++spin) {
      if (left_.load(std::memory_order_acquire) <= 0) return;
      __builtin_ia32_pause();
    }
    for (std::int32_t left = left_.load(std::memory_order_acquire); left > 0;
         left = left_.load(std::memory_order_acquire)) {
      left_.wait(left, std::memory_order_acquire);
    }
  }

 private:
  std::atomic<std::int32_t> left_{0};
};

class TiledGemm {
 public:
  TiledGemm(WorkerTeam& team, const Gemm& args, const TiledKernel& kernel)
      : team_(team),
        kernel_(kernel),
        plan_(plan_tiled(kernel, args, team.num_threads())),
        output_(gemm_output(args)),
        rows_(plan_.is_swapped ? gemm_source_b(args) : gemm_source_a(args)),
        columns_(plan_.is_swapped ? gemm_source_a(args) : gemm_source_b(args)),
        num_k_(gemm_extents(args).k),
        panels_(static_cast<std::size_t>(num_panels())),
        worker_bytes_(plan_.columns_bytes + plan_.kept_bytes + plan_.sums_bytes + 2 * kTileSums * sizeof(float)),
        worker_memory_(plan_.packed_columns_bytes + plan_.packed_rows_bytes),
        memory_(gemm_scratch(worker_memory_ + worker_bytes_ * team.num_threads())) {}

  void run() {
    for (std::int64_t column = 0; column < plan_.num_columns; column += plan_.column_stretch) {
      for (std::int64_t row = 0; row < plan_.num_rows; row += plan_.row_stretch) {
        run_part({.row = row,
                  .num_rows = std::min(plan_.row_stretch, plan_.num_rows - row),
                  .column = column,
                  .num_columns = std::min(plan_.column_stretch, plan_.num_columns - column)});
      }
    }
  }

 private:
  // Of C, or of what is packed for all.
  struct Block {
    std::int64_t row = 0;  // the first
    std::int64_t num_rows = 0;
    std::int64_t column = 0;  // the first
    std::int64_t num_columns = 0;
  };

  struct Scratch {
    std::byte* columns = nullptr;
    std::byte* kept = nullptr;
    float* sums = nullptr;
    float* summed = nullptr;  // a tile that no other panel adds to
    float* turned = nullptr;
  };

  // One at least: where k is 0, it is empty.
  std::int64_t num_panels() const { return std::max<std::int64_t>(blocks(num_k_, plan_.panel_k), 1); }
  std::int64_t first_k(std::int64_t panel) const { return panel * plan_.panel_k; }
  std::int64_t panel_k(std::int64_t panel) const { return std::min(plan_.panel_k, num_k_ - first_k(panel)); }
  // Panel of k by panel of k, and in each by 32 rows.
  std::int64_t packed_at(std::int64_t stretch, std::int64_t panel, std::int64_t row) const {
    return (first_k(panel) * stretch + row * padded(panel_k(panel))) * kElementBytes;
  }
  std::byte* packed_columns(std::int64_t panel, std::int64_t column) const {
    return memory_.data() + packed_at(plan_.column_stretch, panel, column % plan_.column_stretch);
  }
  std::byte* packed_rows(std::int64_t panel, std::int64_t row) const {
    return memory_.data() + plan_.packed_columns_bytes + packed_at(plan_.row_stretch, panel, row % plan_.row_stretch);
  }
  Scratch scratch_of(std::size_t worker_idx) const {
    std::byte* const columns = memory_.data() + worker_memory_ + worker_idx * worker_bytes_;
    std::byte* const kept = columns + plan_.columns_bytes;
    auto* const sums = reinterpret_cast<float*>(kept + plan_.kept_bytes);
    float* const summed = sums + plan_.sums_bytes / sizeof(float);
    return {.columns = columns, .kept = kept, .sums = sums, .summed = summed, .turned = summed + kTileSums};
  }

  // One loop: blocks begin with the panels that are packed while others are still at the rest.
  void run_part(const Block& part) {
    const bool packs_columns = plan_.packed_for == PackedFor::kAll && part.row == 0;
    const std::int64_t column_pieces = packs_columns ? blocks(part.num_columns, packed_width(columns_)) : 0;
    const std::int64_t row_pieces = plan_.packs_rows ? blocks(part.num_rows, packed_width(rows_)) : 0;
    const std::int64_t panel_pieces = column_pieces + row_pieces;
    const std::int64_t num_pieces = panel_pieces * num_panels();
    const std::int64_t num_blocks =
        blocks(part.num_rows, plan_.block_rows) * blocks(part.num_columns, plan_.block_columns);
    std::optional<GemmShares> shares;
    if (plan_.share_rows > 0) shares.emplace(num_blocks, team_.num_threads());
    std::optional<GemmShares> piece_shares;
    if (plan_.packs_own_share) piece_shares.emplace(num_pieces, team_.num_threads());
    for (Countdown& panel : panels_) panel.start(panel_pieces);
    team_.for_each(num_pieces + num_blocks, [&](std::int64_t item_idx, std::size_t worker_idx) {
      if (item_idx < num_pieces) {
        const std::int64_t own_idx = piece_shares ? piece_shares->take(worker_idx) : item_idx;
        // Panel by panel, or all panels of the same columns.
        const std::int64_t panel = piece_shares ? own_idx % num_panels() : item_idx / panel_pieces;
        const std::int64_t piece = piece_shares ? own_idx / num_panels() : item_idx % panel_pieces;
        if (piece < column_pieces) {
          pack_columns(part, panel, piece * packed_width(columns_));
        } else {
          pack_rows(part, panel, (piece - column_pieces) * packed_width(rows_));
        }
        panels_[static_cast<std::size_t>(panel)].count();
        return;
      }
      const std::int64_t block_idx = shares ? shares->take(worker_idx) : item_idx - num_pieces;
      sum_block(block_of(part, block_idx), scratch_of(worker_idx));
    });
  }

  Block block_of(const Block& part, std::int64_t block_idx) const {
    const std::int64_t num_across = blocks(part.num_columns, plan_.block_columns);
    const std::int64_t num_down = blocks(part.num_rows, plan_.block_rows);
    const std::int64_t band_rows = std::max<std::int64_t>(plan_.share_rows, 1);
    const std::int64_t first_row = block_idx / (band_rows * num_across) * band_rows;
    const std::int64_t rows_here = std::min(band_rows, num_down - first_row);
    const std::int64_t in_band = block_idx - first_row * num_across;
    const std::int64_t row = (first_row + in_band % rows_here) * plan_.block_rows;
    const std::int64_t column = in_band / rows_here * plan_.block_columns;
    return {.row = part.row + row,
            .num_rows = std::min(plan_.block_rows, part.num_rows - row),
            .column = part.column + column,
            .num_columns = std::min(plan_.block_columns, part.num_columns - column)};
  }

  void pack_columns(const Block& part, std::int64_t panel, std::int64_t column) const {
    GemmSource from = columns_;
    from.data = columns_.at(part.column + column, first_k(panel));
    pack_column_tiles(packed_columns(panel, part.column + column), from,
                      std::min(packed_width(columns_), part.num_columns - column), panel_k(panel));
  }

  void pack_rows(const Block& part, std::int64_t panel, std::int64_t row) const {
    GemmSource from = rows_;
    from.data = rows_.at(part.row + row, first_k(panel));
    pack_row_tiles(packed_rows(panel, part.row + row), from, std::min(packed_width(rows_), part.num_rows - row),
                   panel_k(panel));
  }

  void sum_block(const Block& block, const Scratch& scratch) const {
    panels_.front().wait();
    TilePending pending;
    const std::uint32_t entered = kernel_.enter();
    if (plan_.goes_by_rows) {
      for (std::int64_t panel = 0; panel < num_panels(); ++panel) ready_columns(block, scratch, panel);
      for (std::int64_t row = 0; row < block.num_rows; row += kAmxSide) {
        for (std::int64_t panel = 0; panel < num_panels(); ++panel) sum_rows(block, scratch, panel, row, pending);
      }
    } else {
      for (std::int64_t panel = 0; panel < num_panels(); ++panel) {
        ready_columns(block, scratch, panel);
        for (std::int64_t row = 0; row < block.num_rows; row += kAmxSide) sum_rows(block, scratch, panel, row, pending);
      }
    }
    kernel_.finish(pending);
    kernel_.leave(entered);
  }

  void ready_columns(const Block& block, const Scratch& scratch, std::int64_t panel) const {
    panels_[static_cast<std::size_t>(panel)].wait();
    if (plan_.packed_for == PackedFor::kAll) return;
    GemmSource from = columns_;
    from.data = columns_.at(block.column, first_k(panel));
    pack_column_tiles(columns_of(block, scratch, panel), from, block.num_columns, panel_k(panel));
  }

  std::byte* columns_of(const Block& block, const Scratch& scratch, std::int64_t panel) const {
    if (plan_.packed_for == PackedFor::kAll) return packed_columns(panel, block.column);
    if (!plan_.goes_by_rows) return scratch.columns;
    return scratch.columns + first_k(panel) * blocks(block.num_columns, kAmxSide) * kAmxSide * kElementBytes;
  }

  // 32 rows of a block with all its columns.
  void sum_rows(const Block& block, const Scratch& scratch, std::int64_t panel, std::int64_t row,
                TilePending& pending) const {
    const std::int64_t k = padded(panel_k(panel));
    const std::int64_t num_across = blocks(block.num_columns, kAmxSide);
    const std::int64_t first_tile = plan_.goes_by_rows ? 0 : row / kAmxSide * num_across;
    const bool is_last = panel + 1 == num_panels();
    TileStrip strip{.num_tiles = num_across,
                    .num_steps = k / kAmxStepK,
                    .num_near_steps = kernel_.near_k / kAmxStepK,
                    .rows = rows_of(block.row + row, std::min(kAmxSide, block.num_rows - row), panel, scratch.kept),
                    .columns = columns_of(block, scratch, panel),
                    .column_bytes = kAmxSide * k * kElementBytes,
                    .sums = scratch.sums + first_tile * kTileSums,
                    .is_first = panel == 0,
                    .output = is_last ? &output_ : nullptr,
                    .place = place_of(block, row),
                    .is_streamed = is_streamed(),
                    .summed = scratch.summed,
                    .turned = plan_.is_swapped ? scratch.turned : nullptr,
                    .pending = &pending};
    if (strip.num_steps > 0) add_fetches(strip, block, panel, row, num_across);
    // Rows that are loaded from afar are kept for the other columns.
    if (strip.rows.row_bytes != TileRows{}.row_bytes && num_across > 1) strip.kept = scratch.kept;
    kernel_.multiply(strip);
  }

  void add_fetches(TileStrip& strip, const Block& block, std::int64_t panel, std::int64_t row,
                   std::int64_t num_across) const {
    const auto add = [&strip](const TileFetch& fetch) {
      if (fetch.num_tiles <= 0) return;
      CHECK(strip.num_fetch < std::ssize(strip.fetch), "there is room for all that a strip fetches");
      strip.fetch[strip.num_fetch++] = fetch;
    };
    add(next_rows(block, panel, row, num_across));
    add(next_columns(block, panel, row / kAmxSide * num_across, num_across, strip.num_steps));
    const bool is_last = panel + 1 == num_panels();
    if (is_last && !strip.is_streamed) {
      TileFetch lines = output_of(strip);
      add(lines);
      lines.first += kLineBytes;
      if (output_.c_dtype == DType::kF32) add(lines);
    }
    // Most sums are added to in one run, which the CPU foresees better than they could be fetched. The first are only
    // written, and the last transposed many at once.
    if (!plan_.goes_by_rows && num_panels() > 1 &&
        (panel == 0 || (is_last && plan_.is_swapped && output_.c_dtype == DType::kBF16)))
      add(sums_of(strip));
  }

  TileRows rows_of(std::int64_t row, std::int64_t num_rows, std::int64_t panel, std::byte* scratch) const {
    if (plan_.packs_rows) return {.first = packed_rows(panel, row)};
    GemmSource from = rows_;
    from.data = rows_.at(row, first_k(panel));
    if (num_rows < kAmxSide || panel_k(panel) % kAmxStepK != 0) {  // a tile would take in what is beside the rows
      pack_row_tiles(scratch, from, num_rows, panel_k(panel));
      return {.first = scratch};
    }
    const std::int64_t row_bytes = rows_.row_stride * kElementBytes;
    return {.first = from.data,
            .row_bytes = row_bytes,
            .half_bytes = kAmxSide / 2 * row_bytes,
            .step_bytes = kAmxStepK * kElementBytes};
  }

  // The rows of R that come next.
  TileFetch next_rows(const Block& block, std::int64_t panel, std::int64_t row, std::int64_t num_across) const {
    std::int64_t next = row;
    std::int64_t next_panel = panel;
    if (plan_.goes_by_rows) {
      next_panel = panel + 1 < num_panels() ? panel + 1 : 0;
      if (next_panel == 0) next += kAmxSide;
    } else {
      next = row + kAmxSide < block.num_rows ? row + kAmxSide : 0;
      if (next == 0) next_panel += 1;
    }
    if (next >= block.num_rows || next_panel == num_panels()) return {};
    next += block.row;
    const std::int64_t num_lines = blocks(kAmxSide, num_across);
    const std::int64_t num_tiles = kAmxSide / num_lines;
    if (plan_.packs_rows) {
      return {.first = address(packed_rows(next_panel, next)),
              .num_lines = num_lines,
              .stride_bytes = kLineBytes,
              .step_bytes = kAmxSide * kLineBytes,
              .tile_bytes = num_lines * kLineBytes,
              .num_tiles = num_tiles};
    }
    const std::int64_t row_bytes = rows_.row_stride * kElementBytes;
    return {.first = address(rows_.at(next, first_k(next_panel))),
            .num_lines = num_lines,
            .stride_bytes = row_bytes,
            .step_bytes = kLineBytes,
            .tile_bytes = num_lines * row_bytes,
            .num_tiles = num_tiles};
  }

  // A strip's share of the next panel of S.
  TileFetch next_columns(const Block& block, std::int64_t panel, std::int64_t first_tile, std::int64_t num_across,
                         std::int64_t num_steps) const {
    if (plan_.goes_by_rows || panel + 1 == num_panels()) return {};
    const std::int64_t num_tiles = blocks(block.num_rows, kAmxSide) * num_across;
    if (plan_.packed_for == PackedFor::kEach) return next_source(block, panel + 1, num_tiles - first_tile, num_across);
    const std::int64_t num_columns = num_across * kAmxSide;
    const std::int64_t total_lines = num_columns * padded(panel_k(panel + 1)) * kElementBytes / kLineBytes;
    const std::int64_t num_lines = blocks(total_lines, num_tiles * num_steps);
    const std::int64_t tile_bytes = num_steps * num_lines * kLineBytes;
    return {.first = address(packed_columns(panel + 1, block.column) + first_tile * tile_bytes),
            .num_lines = num_lines,
            .stride_bytes = kLineBytes,
            .step_bytes = num_lines * kLineBytes,
            .tile_bytes = tile_bytes,
            .num_tiles = total_lines / (num_steps * num_lines) - first_tile};
  }

  // The first of what the thread will pack, as it lies, beside the last tiles. Packing fetches the others itself: rows
  // are often a multiple of 4 KiB apart, and the L2 keeps few such lines.
  TileFetch next_source(const Block& block, std::int64_t panel, std::int64_t tiles_left,
                        std::int64_t num_across) const {
    const std::int64_t row_bytes = columns_.row_stride * kElementBytes;
    constexpr std::int64_t kMostBytes = 256 << 10;  // from the first to the last of them
    const std::int64_t num_rows = std::min(kMostBytes / row_bytes, block.num_columns) / num_across * num_across;
    if (tiles_left > num_rows || columns_.k_stride != 1) return {};
    return {.first = address(columns_.at(block.column + num_rows - tiles_left, first_k(panel))),
            .num_lines = 1,
            .step_bytes = kLineBytes,
            .tile_bytes = row_bytes,
            .num_tiles = num_across};
  }

  // Of the first tile; the others follow, and with them what is left.
  GemmPlace place_of(const Block& block, std::int64_t row) const {
    const std::int64_t num_rows = std::min(kAmxSide, block.num_rows - row);
    if (plan_.is_swapped) {
      return {.m = block.column, .n = block.row + row, .num_m = block.num_columns, .num_n = num_rows};
    }
    return {.m = block.row + row, .n = block.column, .num_m = num_rows, .num_n = block.num_columns};
  }

  // C is only written, in whole lines, and so large that no cache would keep it.
  bool is_streamed() const {
    return output_.c_dtype == DType::kBF16 && output_.into == Into::kOverwrite && output_.bias == nullptr &&
           address(output_.c) % kLineBytes == 0 && output_.num_columns * kElementBytes % kLineBytes == 0 &&
           plan_.num_rows * plan_.num_columns * kElementBytes >= kernel_.min_streamed_bytes;
  }

  // What is added to or written over has lain in memory since the last product.
  TileFetch output_of(const TileStrip& strip) const {
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(output_.c_dtype));
    const std::int64_t row_bytes = output_.num_columns * element_bytes;
    const std::int64_t rows_per_step = blocks(std::min(kAmxSide, strip.place.num_m), strip.num_steps);
    return {.first = address(output_.c + strip.place.m * row_bytes + strip.place.n * element_bytes),
            .num_lines = rows_per_step,
            .stride_bytes = row_bytes,
            .step_bytes = rows_per_step * row_bytes,
            .tile_bytes = kAmxSide * (plan_.is_swapped ? row_bytes : element_bytes),
            .num_tiles = strip.num_tiles};
  }

  static TileFetch sums_of(const TileStrip& strip) {
    constexpr std::int64_t kSumsBytes = kTileSums * std::int64_t{sizeof(float)};
    const std::int64_t num_lines = blocks(kSumsBytes / kLineBytes, strip.num_steps);
    return {.first = reinterpret_cast<std::uintptr_t>(strip.sums),
            .num_lines = num_lines,
            .stride_bytes = kLineBytes,
            .step_bytes = num_lines * kLineBytes,
            .tile_bytes = kSumsBytes,
            .num_tiles = strip.num_tiles};
  }

  WorkerTeam& team_;
  const TiledKernel& kernel_;
  TiledPlan plan_;
  GemmOutput output_;
  GemmSource rows_;
  GemmSource columns_;
  std::int64_t num_k_;
  std::vector<Countdown> panels_;  // what is still to be packed of each, for all
  std::uint64_t worker_bytes_;
  std::uint64_t worker_memory_;  // where that of the workers begins
  std::span<std::byte> memory_;
};

}  // namespace

void gemm_tiled(WorkerTeam& team, const Gemm& args, const TiledKernel& kernel) { TiledGemm(team, args, kernel).run(); }

}  // namespace sluice::cpu
