// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm_blocked.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"
#include "ops/cpu/gemm_plan.h"
#include "ops/cpu/gemm_scratch.h"

namespace sluice::cpu {
namespace {

constexpr std::uint64_t kLineBytes = 64;
// Where C is f32, a longer k is summed in stretches into C, so that what is packed of the shared operand stays wide.
constexpr std::int64_t kMaxK = 16384;

// Panels that are packed as one item: enough to read whole lines of any source.
constexpr std::int64_t kPackedWidths = 4;

std::int64_t blocks(std::int64_t value, std::int64_t block) { return (value + block - 1) / block; }

class BlockedGemm {
 public:
  BlockedGemm(WorkerTeam& team, const Gemm& args, const GemmKernel& kernel, std::int64_t max_k)
      : team_(team),
        kernel_(kernel),
        plan_(plan_gemm(kernel, args, max_k, team.num_threads())),
        output_(gemm_output(args)),
        local_(plan_.local_is_rows ? gemm_source_a(args) : gemm_source_b(args)),
        shared_(plan_.local_is_rows ? gemm_source_b(args) : gemm_source_a(args)),
        local_width_(plan_.local_is_rows ? kernel.rows : kernel.columns),
        shared_width_(plan_.local_is_rows ? kernel.columns : kernel.rows),
        pack_local_(plan_.local_is_rows ? kernel.pack_rows : kernel.pack_columns),
        pack_shared_(plan_.local_is_rows ? kernel.pack_columns : kernel.pack_rows),
        worker_bytes_(round_up(plan_.panel_bytes, kLineBytes) + round_up(plan_.sums_bytes, kLineBytes)),
        worker_memory_(round_up(plan_.shared_bytes, kLineBytes)),
        memory_(gemm_scratch(worker_memory_ + worker_bytes_ * team.num_threads())) {}

  // Sums k in [first_k, first_k + num_k).
  void run(std::int64_t first_k, std::int64_t num_k, Into into, const std::byte* bias) {
    first_k_ = first_k;
    num_k_ = num_k;
    output_.into = into;
    output_.bias = bias;
    for (std::int64_t first = 0; first < plan_.num_shared; first += plan_.stretch) {
      run_stretch(first, std::min(plan_.stretch, plan_.num_shared - first));
    }
  }

  const std::byte* bias() const { return output_.bias; }

 private:
  struct Block {
    std::int64_t local = 0;  // the first row
    std::int64_t num_local = 0;
    std::int64_t shared = 0;  // the first row, within the stretch
    std::int64_t num_shared = 0;
    std::int64_t stretch = 0;  // where the stretch begins
  };

  std::int64_t padded(std::int64_t k) const { return blocks(k, kernel_.k_step) * kernel_.k_step; }
  std::int64_t num_panels() const { return blocks(num_k_, kernel_.panel_k); }
  std::int64_t panel_k(std::int64_t panel) const { return std::min(kernel_.panel_k, num_k_ - panel * kernel_.panel_k); }
  // Panel of k by panel of k, and in each by width.
  std::byte* packed_shared(std::int64_t panel, std::int64_t row) const {
    const std::int64_t at = panel * kernel_.panel_k * plan_.stretch + row * padded(panel_k(panel));
    return memory_.data() + at * kernel_.packed_bytes;
  }

  // Rows [first, first + count) of the shared operand.
  void pack_once(std::int64_t first, std::int64_t count) {
    const std::int64_t piece_rows = kPackedWidths * shared_width_;
    const std::int64_t num_pieces = blocks(count, piece_rows);
    team_.for_each(num_panels() * num_pieces, [&](std::int64_t item_idx, std::size_t) {
      const std::int64_t panel = item_idx / num_pieces;
      const std::int64_t row = item_idx % num_pieces * piece_rows;
      GemmSource from = shared_;
      from.data = shared_.at(first + row, first_k_ + panel * kernel_.panel_k);
      pack_shared_(packed_shared(panel, row), from, std::min(piece_rows, count - row), panel_k(panel));
    });
  }

  void run_stretch(std::int64_t first, std::int64_t count) {
    pack_once(first, count);
    const std::int64_t num_across = blocks(count, plan_.shared_block);
    const std::int64_t num_along = blocks(plan_.num_local, plan_.local_block);
    team_.for_each(num_along * num_across, [&](std::int64_t item_idx, std::size_t worker_idx) {
      const std::int64_t local = item_idx / num_across * plan_.local_block;
      const std::int64_t shared = item_idx % num_across * plan_.shared_block;
      sum_block({.local = local,
                 .num_local = std::min(plan_.local_block, plan_.num_local - local),
                 .shared = shared,
                 .num_shared = std::min(plan_.shared_block, count - shared),
                 .stretch = first},
                worker_idx);
    });
  }

  void sum_block(const Block& block, std::size_t worker_idx) const {
    std::byte* const panel_memory = memory_.data() + worker_memory_ + worker_idx * worker_bytes_;
    auto* const sums = reinterpret_cast<float*>(panel_memory + round_up(plan_.panel_bytes, kLineBytes));
    const std::int64_t local_widths = blocks(block.num_local, local_width_);
    const std::int64_t shared_widths = blocks(block.num_shared, shared_width_);
    const std::int64_t tile_elements = kernel_.rows * kernel_.columns;
    if (num_k_ == 0) {
      std::fill(sums, sums + tile_elements, 0.0F);
      for (std::int64_t tile_idx = 0; tile_idx < local_widths * shared_widths; ++tile_idx) {
        write(block, tile_idx / shared_widths, tile_idx % shared_widths, sums);
      }
      return;
    }
    for (std::int64_t panel = 0; panel < num_panels(); ++panel) {
      const std::int64_t k = panel_k(panel);
      GemmSource from = local_;
      from.data = local_.at(block.local, first_k_ + panel * kernel_.panel_k);
      pack_local_(panel_memory, from, block.num_local, k);
      GemmTile tile{.num_k = k, .is_first = panel == 0};
      for (std::int64_t along = 0; along < local_widths; ++along) {
        const std::byte* const local = panel_memory + along * local_width_ * padded(k) * kernel_.packed_bytes;
        for (std::int64_t across = 0; across < shared_widths; ++across) {
          const std::int64_t tile_idx = along * shared_widths + across;
          const std::byte* const shared = packed_shared(panel, block.shared + across * shared_width_);
          tile.rows = plan_.local_is_rows ? local : shared;
          tile.columns = plan_.local_is_rows ? shared : local;
          // Sums that need not wait for another panel need no place of their own, and stay in the L1.
          tile.sums = num_panels() == 1 ? sums : sums + tile_idx * tile_elements;
          kernel_.multiply(tile);
          if (panel + 1 == num_panels()) write(block, along, across, tile.sums);
        }
      }
    }
  }

  void write(const Block& block, std::int64_t along, std::int64_t across, const float* sums) const {
    const std::int64_t local = along * local_width_;
    const std::int64_t shared = across * shared_width_;
    const std::int64_t num_local = std::min(local_width_, block.num_local - local);
    const std::int64_t num_shared = std::min(shared_width_, block.num_shared - shared);
    const bool local_is_m = plan_.local_is_rows;
    const std::int64_t first_local = block.local + local;
    const std::int64_t first_shared = block.stretch + block.shared + shared;
    const GemmPlace place{.m = local_is_m ? first_local : first_shared,
                          .n = local_is_m ? first_shared : first_local,
                          .num_m = local_is_m ? num_local : num_shared,
                          .num_n = local_is_m ? num_shared : num_local};
    kernel_.write(output_, place, sums, kernel_.columns);
  }

  WorkerTeam& team_;
  const GemmKernel& kernel_;
  GemmPlan plan_;
  GemmOutput output_;
  GemmSource local_;
  GemmSource shared_;
  std::int64_t local_width_;
  std::int64_t shared_width_;
  void (*pack_local_)(std::byte*, const GemmSource&, std::int64_t, std::int64_t);
  void (*pack_shared_)(std::byte*, const GemmSource&, std::int64_t, std::int64_t);
  std::uint64_t worker_bytes_;
  std::uint64_t worker_memory_;  // where that of the workers begins
  std::span<std::byte> memory_;
  std::int64_t first_k_ = 0;
  std::int64_t num_k_ = 0;
};

}  // namespace

void gemm_blocked(WorkerTeam& team, const Gemm& args, const GemmKernel& kernel) {
  const std::int64_t k = gemm_extents(args).k;
  const std::int64_t most = args.c.dtype() == DType::kF32 ? kMaxK : std::max<std::int64_t>(k, 1);
  BlockedGemm product(team, args, kernel, std::min(k, most));
  const std::byte* const bias = product.bias();
  product.run(0, std::min(k, most), args.into, bias);
  for (std::int64_t first = most; first < k; first += most) {
    product.run(first, std::min(most, k - first), Into::kAdd, nullptr);
  }
}

}  // namespace sluice::cpu
