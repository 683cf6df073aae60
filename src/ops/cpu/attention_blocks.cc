// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/attention_blocks.h"

#include <algorithm>

namespace sluice::cpu {
namespace {

void sort_by_cost(std::vector<AttentionItem>& items) {
  std::stable_sort(items.begin(), items.end(),
                   [](const AttentionItem& a, const AttentionItem& b) { return a.cost() > b.cost(); });
}

}  // namespace

std::int64_t RowGroup::first_key(std::int64_t row) const {
  return window == 0 ? 0 : std::max<std::int64_t>(0, last_key(row) - window + 1);
}

IndexRange RowGroup::keys_seen_by(IndexRange rows) const {
  return {.begin = first_key(rows.begin), .end = last_key(rows.end - 1) + 1};
}

IndexRange RowGroup::rows_that_see(IndexRange keys) const {
  const std::int64_t before = segment.k_count - segment.q_count;  // keys that precede the first query
  const std::int64_t first_query = std::max<std::int64_t>(0, keys.begin - before);
  const std::int64_t past_query =
      window == 0 ? segment.q_count : std::min(segment.q_count, keys.end - 1 + window - before);
  return {.begin = first_query * num_heads, .end = std::max(first_query, past_query) * num_heads};
}

bool RowGroup::all_see_all(IndexRange rows, IndexRange keys) const {
  return keys.end - 1 <= last_key(rows.begin) && keys.begin >= first_key(rows.end - 1);
}

std::vector<RowGroup> row_groups(const AttentionShape& shape, const std::vector<AttentionSegment>& segments) {
  const std::int64_t heads_each = shape.num_heads / shape.num_kv_heads;
  std::vector<RowGroup> groups;
  groups.reserve(segments.size() * static_cast<std::size_t>(shape.num_kv_heads));
  for (const AttentionSegment& segment : segments) {
    for (std::int64_t kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
      groups.push_back({.segment = segment,
                        .first_head = kv_head * heads_each,
                        .num_heads = heads_each,
                        .kv_head = kv_head,
                        .window = shape.window});
    }
  }
  return groups;
}

std::vector<AttentionItem> row_items(const std::vector<RowGroup>& groups) {
  std::vector<AttentionItem> items;
  for (const RowGroup& group : groups) {
    for (std::int64_t first = 0; first < group.num_rows(); first += kRowBlock) {
      const IndexRange rows{.begin = first, .end = std::min(first + kRowBlock, group.num_rows())};
      items.push_back({.group = group, .rows = rows, .keys = group.keys_seen_by(rows)});
    }
  }
  sort_by_cost(items);
  return items;
}

std::vector<AttentionItem> key_items(const std::vector<RowGroup>& groups) {
  std::vector<AttentionItem> items;
  for (const RowGroup& group : groups) {
    for (std::int64_t first = 0; first < group.segment.k_count; first += kKeyBlock) {
      const IndexRange keys{.begin = first, .end = std::min(first + kKeyBlock, group.segment.k_count)};
      items.push_back({.group = group, .rows = group.rows_that_see(keys), .keys = keys});
    }
  }
  sort_by_cost(items);
  return items;
}

}  // namespace sluice::cpu
