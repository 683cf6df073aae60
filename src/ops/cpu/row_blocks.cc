// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/row_blocks.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/units.h"
#include "ops/cpu/items.h"

namespace sluice::cpu {
namespace {

// Enough blocks for any team, and so few that their sums are small beside the rows.
constexpr std::int64_t kMinRows = 32;
constexpr std::int64_t kMaxBlocks = 256;

constexpr std::int64_t kItemCols = 256;

}  // namespace

RowBlocks::RowBlocks(std::int64_t num_rows)
    : num_rows_(num_rows),
      rows_each_(std::max<std::int64_t>(kMinRows, div_ceil(num_rows, kMaxBlocks))),
      count_(div_ceil(num_rows, rows_each_)) {}

std::int64_t RowBlocks::num_rows(std::int64_t block_idx) const {
  return std::min(rows_each_, num_rows_ - first_row(block_idx));
}

void BlockSums::add_to(WorkerTeam& team, std::span<float> totals) const {
  CHECK(totals.size() == num_cols_, "a total for each column");
  over_items(team, static_cast<std::int64_t>(num_cols_), kItemCols, [&](std::int64_t from, std::int64_t num_cols) {
    const auto first = static_cast<std::size_t>(from);
    const auto count = static_cast<std::size_t>(num_cols);
    std::array<double, kItemCols> merged{};
    for (std::size_t row = 0; row < sums_.size(); row += num_cols_) {
      for (std::size_t col = 0; col < count; ++col) merged[col] += sums_[row + first + col];
    }
    for (std::size_t col = 0; col < count; ++col) {
      totals[first + col] = static_cast<float>(totals[first + col] + merged[col]);
    }
  });
}

}  // namespace sluice::cpu
