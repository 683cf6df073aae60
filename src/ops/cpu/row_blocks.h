// SPDX-License-Identifier: Apache-2.0
// Sums over rows in parallel: rows are cut into blocks that depend on their number alone, every block adds up into a
// row of its own, and those rows are merged in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/worker_team.h"

namespace sluice::cpu {

class RowBlocks {
 public:
  explicit RowBlocks(std::int64_t num_rows);

  std::int64_t count() const { return count_; }
  std::int64_t first_row(std::int64_t block_idx) const { return block_idx * rows_each_; }
  std::int64_t num_rows(std::int64_t block_idx) const;

 private:
  std::int64_t num_rows_;
  std::int64_t rows_each_;
  std::int64_t count_;
};

// One row of sums for each block, zero at first.
class BlockSums {
 public:
  BlockSums(const RowBlocks& blocks, std::int64_t num_cols)
      : num_cols_(static_cast<std::size_t>(num_cols)), sums_(static_cast<std::size_t>(blocks.count()) * num_cols_) {}

  float* of_block(std::int64_t block_idx) { return sums_.data() + static_cast<std::size_t>(block_idx) * num_cols_; }
  // totals[j] += the sum of column j, merged in double.
  void add_to(WorkerTeam& team, std::span<float> totals) const;

 private:
  std::size_t num_cols_;
  std::vector<float> sums_;
};

}  // namespace sluice::cpu
