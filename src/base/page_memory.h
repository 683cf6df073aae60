// SPDX-License-Identifier: Apache-2.0
// Owned host memory straight from the kernel: page-aligned, zero, in huge pages where there are any (direct I/O into
// them costs half the processor time that it costs into small ones). Pages arrive when first touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

inline constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;  // memory of less has small pages only

class PageMemory {
 public:
  PageMemory() = default;
  // Throws OutOfBudget where the system has no more to give.
  explicit PageMemory(std::uint64_t size_bytes);
  ~PageMemory();
  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;

  // Every page arrives now, with as many threads as the machine has: what is pinned one page after another waits for
  // each to be cleared, a minute for 100 GiB.
  void populate() const;

  std::span<std::byte> bytes() const { return memory_; }
  std::uint64_t size_bytes() const { return memory_.size(); }

 private:
  std::span<std::byte> memory_;
};

}  // namespace sluice
