// SPDX-License-Identifier: Apache-2.0
// Hands out ranges of an address space [0, size): file bytes, device memory. It knows offsets, never touches memory.
// Best fit, neighbours coalesce on release. Not thread-safe: its owner locks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace sluice {

struct Range {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;

  std::uint64_t end() const { return offset + size; }
  bool operator==(const Range&) const = default;
};

class RangeAllocator {
 public:
  // Every offset and size is a multiple of `granule`.
  RangeAllocator(std::uint64_t size, std::uint64_t granule);

  // The smallest free range that holds `size` bytes (rounded up to the granule), or nothing.
  std::optional<Range> take(std::uint64_t size);
  // Up to `size` bytes from the largest free range; nothing only when everything is taken.
  std::optional<Range> take_largest(std::uint64_t size);
  // Takes exactly this range; false if any of it is taken already or lies outside.
  [[nodiscard]] bool take_exactly(Range range);
  // Gives a taken range, or part of one, back.
  void release(Range range);
  // Adds [size(), new_size) to the free space.
  void grow(std::uint64_t new_size);
  // Cuts [new_size, size()) off, all of which is free.
  void shrink(std::uint64_t new_size);

  std::uint64_t size() const { return size_; }
  std::uint64_t free_bytes() const { return free_bytes_; }
  // Of the free range that reaches the end, if there is one.
  std::uint64_t free_tail_bytes() const;
  std::uint64_t largest_free_bytes() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

 private:
  using BySize = std::multimap<std::uint64_t, std::uint64_t>;

  void insert_free(Range range);
  void erase_free(std::map<std::uint64_t, BySize::iterator>::iterator entry);
  Range carve(std::uint64_t offset, std::uint64_t size);

  std::uint64_t size_;
  std::uint64_t granule_;
  std::uint64_t free_bytes_ = 0;
  BySize by_size_;                                       // size -> offset
  std::map<std::uint64_t, BySize::iterator> by_offset_;  // offset -> its entry in by_size_
};

}  // namespace sluice
