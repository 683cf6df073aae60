// SPDX-License-Identifier: Apache-2.0
#include "text/piece_splitter.h"

#include <algorithm>

namespace sluice {
namespace {

// Joins a part with its neighbour on the left where `joins(part, was_match)` says so.
template <typename Joins>
void fold_left(std::vector<FoundPart>& parts, Joins joins) {
  std::size_t num_kept = 0;
  bool was_match = false;
  for (const FoundPart part : parts) {
    if (num_kept > 0 && joins(part.is_match, was_match)) {
      parts[num_kept - 1].end = part.end;
    } else {
      parts[num_kept++] = part;
    }
    was_match = part.is_match;
  }
  parts.resize(num_kept);
}

void merge_with_next(std::vector<FoundPart>& parts) {
  std::reverse(parts.begin(), parts.end());
  std::size_t num_kept = 0;
  bool was_match = false;
  for (const FoundPart part : parts) {
    if (num_kept > 0 && part.is_match && !was_match) {
      parts[num_kept - 1].begin = part.begin;
    } else {
      parts[num_kept++] = part;
    }
    was_match = part.is_match;
  }
  parts.resize(num_kept);
  std::reverse(parts.begin(), parts.end());
}

}  // namespace

SplitBehavior parse_split_behavior(const JsonView& view) {
  const std::string& name = view.string();
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  view.refuse("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

void arrange_parts(std::vector<FoundPart>& parts, SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return;
    case SplitBehavior::kRemoved:
      std::erase_if(parts, [](const FoundPart& part) { return part.is_match; });
      return;
    case SplitBehavior::kContiguous:
      return fold_left(parts, [](bool is_match, bool was_match) { return is_match == was_match; });
    case SplitBehavior::kMergedWithPrevious:
      return fold_left(parts, [](bool is_match, bool was_match) { return is_match && !was_match; });
    case SplitBehavior::kMergedWithNext:
      return merge_with_next(parts);
  }
}

}  // namespace sluice
