// SPDX-License-Identifier: Apache-2.0
#include "base/range_allocator.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/units.h"

namespace sluice {

RangeAllocator::RangeAllocator(std::uint64_t size, std::uint64_t granule) : size_(0), granule_(granule) {
  CHECK(granule > 0, "a granule has a size");
  grow(size);
}

void RangeAllocator::insert_free(Range range) {
  by_offset_.emplace(range.offset, by_size_.emplace(range.size, range.offset));
  free_bytes_ += range.size;
}

void RangeAllocator::erase_free(std::map<std::uint64_t, BySize::iterator>::iterator entry) {
  free_bytes_ -= entry->second->first;
  by_size_.erase(entry->second);
  by_offset_.erase(entry);
}

Range RangeAllocator::carve(std::uint64_t offset, std::uint64_t size) {
  const auto entry = by_offset_.find(offset);
  const std::uint64_t free_size = entry->second->first;
  erase_free(entry);
  if (free_size > size) insert_free({offset + size, free_size - size});
  return {offset, size};
}

std::optional<Range> RangeAllocator::take(std::uint64_t size) {
  CHECK(size > 0, "a range has a size");
  if (size > size_) return std::nullopt;  // might wrap round when rounded up
  size = round_up(size, granule_);
  const auto best = by_size_.lower_bound(size);
  if (best == by_size_.end()) return std::nullopt;
  return carve(best->second, size);
}

std::optional<Range> RangeAllocator::take_largest(std::uint64_t size) {
  if (by_size_.empty()) return std::nullopt;
  const auto largest = std::prev(by_size_.end());
  return carve(largest->second, round_up(std::min(size, largest->first), granule_));
}

bool RangeAllocator::take_exactly(Range range) {
  CHECK(is_aligned(range.offset, granule_) && is_aligned(range.size, granule_), "ranges keep to the granule");
  auto entry = by_offset_.upper_bound(range.offset);
  if (range.size == 0 || entry == by_offset_.begin()) return false;
  --entry;
  const Range free{entry->first, entry->second->first};
  if (range.offset < free.offset || range.size > free.end() - range.offset || range.offset >= free.end()) return false;
  erase_free(entry);
  if (range.offset > free.offset) insert_free({free.offset, range.offset - free.offset});
  if (range.end() < free.end()) insert_free({range.end(), free.end() - range.end()});
  return true;
}

void RangeAllocator::release(Range range) {
  CHECK(
      is_aligned(range.offset, granule_) && is_aligned(range.size, granule_) && range.size > 0 && range.end() <= size_,
      "only what was taken is released");
  auto after = by_offset_.lower_bound(range.offset);
  if (after != by_offset_.begin()) {
    const auto before = std::prev(after);
    const Range free{before->first, before->second->first};
    CHECK(free.end() <= range.offset, "a range is released once");
    if (free.end() == range.offset) {
      range = {free.offset, free.size + range.size};
      erase_free(before);
    }
  }
  if (after != by_offset_.end()) {
    CHECK(range.end() <= after->first, "a range is released once");
    if (range.end() == after->first) {
      range.size += after->second->first;
      erase_free(after);
    }
  }
  insert_free(range);
}

void RangeAllocator::grow(std::uint64_t new_size) {
  new_size = round_down(new_size, granule_);
  if (new_size <= size_) return;
  const Range added{size_, new_size - size_};
  size_ = new_size;
  release(added);
}

std::uint64_t RangeAllocator::free_tail_bytes() const {
  if (by_offset_.empty()) return 0;
  const auto last = std::prev(by_offset_.end());
  return last->first + last->second->first == size_ ? last->second->first : 0;
}

void RangeAllocator::shrink(std::uint64_t new_size) {
  new_size = round_up(new_size, granule_);
  if (new_size >= size_) return;
  CHECK(take_exactly({new_size, size_ - new_size}), "what is cut off is free");
  size_ = new_size;
}

}  // namespace sluice
