// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_direct.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "ops/cpu/gemm_direct_plan.h"
#include "ops/cpu/gemm_pack_avx512.h"
#include "ops/cpu/gemm_scratch.h"
#include "ops/cpu/gemm_write_avx512.h"

namespace sluice::cpu {
namespace {

constexpr std::int64_t kElementBytes = 2;
constexpr std::int64_t kLineBytes = 64;
constexpr std::int64_t kTileSums = kAmxSide * kAmxSide;

std::int64_t blocks(std::int64_t value, std::int64_t block) { return (value + block - 1) / block; }
std::int64_t padded(std::int64_t k) { return blocks(k, kAmxStepK) * kAmxStepK; }

// Columns that are packed as one item: a panel's rows are long runs where k is along, and need company where it is not.
std::int64_t packed_columns(const GemmSource& columns) { return columns.k_stride == 1 ? kAmxSide : 2 * kAmxSide; }

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

class DirectGemm {
 public:
  DirectGemm(WorkerTeam& team, const Gemm& args, const DirectKernel& kernel)
      : team_(team),
        kernel_(kernel),
        plan_(plan_direct(kernel, args, team.num_threads())),
        output_(gemm_output(args)),
        rows_(plan_.is_swapped ? gemm_source_b(args) : gemm_source_a(args)),
        columns_(plan_.is_swapped ? gemm_source_a(args) : gemm_source_b(args)),
        num_k_(gemm_extents(args).k),
        panels_(static_cast<std::size_t>(num_panels())),
        worker_bytes_(plan_.columns_bytes + plan_.kept_bytes + plan_.sums_bytes + kTileSums * sizeof(float)),
        memory_(gemm_scratch(plan_.packed_bytes + worker_bytes_ * team.num_threads())) {}

  void run() {
    for (std::int64_t first = 0; first < plan_.num_columns; first += plan_.stretch) {
      run_stretch(first, std::min(plan_.stretch, plan_.num_columns - first));
    }
  }

 private:
  struct Block {
    std::int64_t row = 0;  // the first
    std::int64_t num_rows = 0;
    std::int64_t column = 0;  // the first, of all
    std::int64_t num_columns = 0;
    std::int64_t packed = 0;  // the first, within what is packed
  };

  struct Scratch {
    std::byte* columns = nullptr;
    std::byte* kept = nullptr;
    float* sums = nullptr;
    float* turned = nullptr;
  };

  std::int64_t num_panels() const { return blocks(num_k_, kernel_.panel_k); }
  std::int64_t first_k(std::int64_t panel) const { return panel * kernel_.panel_k; }
  std::int64_t panel_k(std::int64_t panel) const { return std::min(kernel_.panel_k, num_k_ - first_k(panel)); }
  // Panel of k by panel of k, and in each by 32 columns.
  std::byte* packed_at(std::int64_t panel, std::int64_t column) const {
    return memory_.data() + (first_k(panel) * plan_.stretch + column * padded(panel_k(panel))) * kElementBytes;
  }
  Scratch scratch_of(std::size_t worker_idx) const {
    std::byte* const columns = memory_.data() + plan_.packed_bytes + worker_idx * worker_bytes_;
    std::byte* const kept = columns + plan_.columns_bytes;
    auto* const sums = reinterpret_cast<float*>(kept + plan_.kept_bytes);
    return {.columns = columns, .kept = kept, .sums = sums, .turned = sums + plan_.sums_bytes / sizeof(float)};
  }

  // One loop: blocks begin with the panels that are packed while others are at it.
  void run_stretch(std::int64_t first, std::int64_t count) {
    const std::int64_t num_across = blocks(count, plan_.block_columns);
    const std::int64_t num_blocks = blocks(plan_.num_rows, plan_.block_rows) * num_across;
    const std::int64_t panel_pieces = plan_.packed_for == PackedFor::kAll ? blocks(count, packed_columns(columns_)) : 0;
    const std::int64_t num_pieces = panel_pieces * num_panels();
    for (Countdown& panel : panels_) panel.start(panel_pieces);
    team_.for_each(num_pieces + num_blocks, [&](std::int64_t item_idx, std::size_t worker_idx) {
      if (item_idx < num_pieces) {
        pack(first, count, item_idx / panel_pieces, item_idx % panel_pieces);
        return;
      }
      const std::int64_t row = (item_idx - num_pieces) / num_across * plan_.block_rows;
      const std::int64_t packed = (item_idx - num_pieces) % num_across * plan_.block_columns;
      sum_block({.row = row,
                 .num_rows = std::min(plan_.block_rows, plan_.num_rows - row),
                 .column = first + packed,
                 .num_columns = std::min(plan_.block_columns, count - packed),
                 .packed = packed},
                scratch_of(worker_idx));
    });
  }

  void pack(std::int64_t first, std::int64_t count, std::int64_t panel, std::int64_t piece) {
    const std::int64_t column = piece * packed_columns(columns_);
    GemmSource from = columns_;
    from.data = columns_.at(first + column, first_k(panel));
    pack_column_tiles(packed_at(panel, column), from, std::min(packed_columns(columns_), count - column),
                      panel_k(panel));
    panels_[static_cast<std::size_t>(panel)].count();
  }

  void sum_block(const Block& block, const Scratch& scratch) const {
    panels_.front().wait();
    kernel_.enter();
    for (std::int64_t panel = 0; panel < num_panels(); ++panel) {
      panels_[static_cast<std::size_t>(panel)].wait();
      const std::byte* columns = packed_at(panel, block.packed);
      if (plan_.packed_for == PackedFor::kEach) {
        GemmSource from = columns_;
        from.data = columns_.at(block.column, first_k(panel));
        pack_column_tiles(scratch.columns, from, block.num_columns, panel_k(panel));
        columns = scratch.columns;
      }
      for (std::int64_t row = 0; row < block.num_rows; row += kAmxSide) {
        sum_rows(block, scratch, panel, row, columns);
      }
    }
    kernel_.leave();
  }

  // 32 rows of a block with all its columns.
  void sum_rows(const Block& block, const Scratch& scratch, std::int64_t panel, std::int64_t row,
                const std::byte* columns) const {
    const std::int64_t k = panel_k(panel);
    const std::int64_t num_rows = std::min(kAmxSide, block.num_rows - row);
    const std::int64_t num_across = blocks(block.num_columns, kAmxSide);
    const TileRows kept{.first = scratch.kept};
    DirectTile tile{.rows = kept, .kept = scratch.kept, .num_steps = padded(k) / kAmxStepK, .is_first = panel == 0};
    GemmSource from = rows_;
    from.data = rows_.at(block.row + row, first_k(panel));
    const bool is_whole = num_rows == kAmxSide && k % kAmxStepK == 0;
    if (is_whole) {
      const std::int64_t row_bytes = rows_.row_stride * kElementBytes;
      tile.rows = {.first = from.data,
                   .row_bytes = row_bytes,
                   .half_bytes = kAmxSide / 2 * row_bytes,
                   .step_bytes = kAmxStepK * kElementBytes};
    } else {  // a tile would take in what is beside the rows
      pack_row_tiles(scratch.kept, from, num_rows, k);
    }
    for (std::int64_t across = 0; across < num_across; ++across) {
      const std::int64_t tile_idx = row / kAmxSide * num_across + across;
      tile.columns = columns + across * kAmxSide * padded(k) * kElementBytes;
      // Sums that need not wait for another panel need no place of their own, and stay in the L1.
      tile.sums = num_panels() == 1 ? scratch.sums : scratch.sums + tile_idx * kTileSums;
      tile.fetch[0] = next_rows(block, panel, row, across, num_across);
      tile.fetch[1] = next_columns(block, panel, tile_idx, tile.num_steps);
      // Rows that are loaded from afar are kept for the other columns.
      const bool keeps = is_whole && across == 0 && num_across > 1;
      (keeps ? kernel_.multiply_and_keep : kernel_.multiply)(tile);
      if (keeps) tile.rows = kept;
      if (panel + 1 == num_panels()) write(block, row, across * kAmxSide, tile.sums, scratch.turned);
    }
  }

  // A tile's share of the rows of R that come next: of this panel, then of the next.
  TileFetch next_rows(const Block& block, std::int64_t panel, std::int64_t row, std::int64_t across,
                      std::int64_t num_across) const {
    const bool is_last = row + kAmxSide >= block.num_rows;
    if (is_last && panel + 1 == num_panels()) return {};
    const std::int64_t next = is_last ? 0 : row + kAmxSide;
    const std::int64_t num_rows = std::min(kAmxSide, block.num_rows - next);
    const std::int64_t first = num_rows * across / num_across;
    return {.first = rows_.at(block.row + next + first, first_k(is_last ? panel + 1 : panel)),
            .num_lines = num_rows * (across + 1) / num_across - first,
            .stride_bytes = rows_.row_stride * kElementBytes,
            .step_bytes = kLineBytes};
  }

  // A tile's share of what the thread will pack for the next panel, where it does that: of S as it lies, for as many of
  // k as the tile has steps.
  TileFetch next_columns(const Block& block, std::int64_t panel, std::int64_t tile_idx, std::int64_t num_steps) const {
    if (plan_.packed_for == PackedFor::kAll || panel + 1 == num_panels()) return {};
    const std::int64_t first = tile_idx * num_steps;
    if (first + num_steps > panel_k(panel + 1)) return {};
    return {.first = columns_.at(block.column, first_k(panel + 1) + first),
            .num_lines = blocks(block.num_columns * kElementBytes, kLineBytes),
            .stride_bytes = kLineBytes,
            .step_bytes = columns_.k_stride * kElementBytes};
  }

  void write(const Block& block, std::int64_t row, std::int64_t column, const float* sums, float* turned) const {
    const std::int64_t num_rows = std::min(kAmxSide, block.num_rows - row);
    const std::int64_t num_columns = std::min(kAmxSide, block.num_columns - column);
    if (plan_.is_swapped) {
      transpose_sums(turned, sums);
      write_avx512(output_, {.m = block.column + column, .n = block.row + row, .num_m = num_columns, .num_n = num_rows},
                   turned, kAmxSide);
    } else {
      write_avx512(output_, {.m = block.row + row, .n = block.column + column, .num_m = num_rows, .num_n = num_columns},
                   sums, kAmxSide);
    }
  }

  WorkerTeam& team_;
  const DirectKernel& kernel_;
  DirectPlan plan_;
  GemmOutput output_;
  GemmSource rows_;
  GemmSource columns_;
  std::int64_t num_k_;
  std::vector<Countdown> panels_;  // what is still to be packed of each, for all
  std::uint64_t worker_bytes_;
  std::span<std::byte> memory_;
};

}  // namespace

void gemm_direct(WorkerTeam& team, const Gemm& args, const DirectKernel& kernel) {
  CHECK(gemm_direct_takes(args), "an operand has k along");
  DirectGemm(team, args, kernel).run();
}

}  // namespace sluice::cpu
