// SPDX-License-Identifier: Apache-2.0
// How attention is cut into blocks. The heads that share a kv head differ only in their queries, so every (query, head)
// pair of them is a row of one list, and a key is read once for all. A row sees a range of keys; blocks that no row of
// a block sees are never touched. The cut depends on shapes alone, never on the number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention.h"

namespace sluice::cpu {

inline constexpr std::int64_t kRowBlock = 64;
inline constexpr std::int64_t kKeyBlock = 96;  // in dK and dV a block of keys is a block of lanes: a multiple of 16
inline constexpr std::int64_t kMaxLanes = 16;  // floats in the widest vector that kernels are compiled for

// Groups of at most this many rows are cut by keys instead. That many fill a vector no worse than a block would.
inline constexpr std::int64_t kFewRows = 16;
inline constexpr std::int64_t kPartKeys = 256;  // what one thread takes of their keys
inline constexpr std::int64_t kPartBlock = 32;  // of them at a time, which fit the first-level cache

struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
};

// The rows that read one kv head within one segment: row = query * num_heads + head, all counted from 0. Keys are
// counted from the segment's first.
struct RowGroup {
  AttentionSegment segment;
  std::int64_t first_head = 0;
  std::int64_t num_heads = 0;
  std::int64_t kv_head = 0;
  std::int64_t window = 0;

  std::int64_t num_rows() const { return segment.q_count * num_heads; }
  std::int64_t head(std::int64_t row) const { return first_head + row % num_heads; }
  std::int64_t token(std::int64_t row) const { return segment.q_first + row / num_heads; }
  std::int64_t last_key(std::int64_t row) const { return segment.k_count - segment.q_count + row / num_heads; }
  std::int64_t first_key(std::int64_t row) const;

  IndexRange keys_seen_by(IndexRange rows) const;
  IndexRange rows_that_see(IndexRange keys) const;
  // Every row sees every key: nothing to mask.
  bool all_see_all(IndexRange rows, IndexRange keys) const;
};

// A piece of work that one thread does alone. Forward and dQ: a block of rows and the keys they see. dK and dV: a block
// of keys and the rows that see them.
struct AttentionItem {
  RowGroup group;
  IndexRange rows;
  IndexRange keys;

  std::int64_t cost() const { return rows.count() * keys.count(); }
};

std::vector<RowGroup> row_groups(const AttentionShape& shape, const std::vector<AttentionSegment>& segments);
// The costliest first, so that the threads end together.
std::vector<AttentionItem> row_items(const std::vector<RowGroup>& groups);
std::vector<AttentionItem> key_items(const std::vector<RowGroup>& groups);

}  // namespace sluice::cpu
