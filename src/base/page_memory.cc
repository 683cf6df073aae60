// SPDX-License-Identifier: Apache-2.0
#include "base/page_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/core.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/units.h"
#include "base/worker_team.h"

namespace sluice {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kPopulatedAtOnce = 64 * kMiB;

// MADV_POPULATE_WRITE is of Linux 5.14; before it a page arrives when something is written there.
void populate_pages(std::span<std::byte> memory) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0) return;
#endif
  for (std::uint64_t at = 0; at < memory.size(); at += kPageBytes) {
    volatile std::byte* const page = memory.data() + at;
    *page = *page;
  }
}

}  // namespace

PageMemory::PageMemory(std::uint64_t size_bytes) {
  if (size_bytes == 0) return;
  size_bytes = round_up(size_bytes, kPageBytes);
  // Huge pages begin at multiples of their size: map a little more, and give the ragged ends back.
  const std::uint64_t slack = size_bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* const mapped =
      ::mmap(nullptr, size_bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw OutOfBudget(fmt::format("the system has no {} of memory to give ({}): ask for a smaller budget",
                                  format_bytes(size_bytes), errno_text(errno)));
  }
  auto* begin = static_cast<std::byte*>(mapped);
  if (slack > 0) {
    const std::uint64_t head =
        round_up(reinterpret_cast<std::uintptr_t>(begin), kHugePageBytes) - reinterpret_cast<std::uintptr_t>(begin);
    if (head > 0) ::munmap(begin, head);
    begin += head;
    if (slack > head) ::munmap(begin + size_bytes, slack - head);
    ::madvise(begin, size_bytes, MADV_HUGEPAGE);
  }
  memory_ = {begin, size_bytes};
}

void PageMemory::populate() const {
  const std::uint64_t num_parts = (memory_.size() + kPopulatedAtOnce - 1) / kPopulatedAtOnce;
  WorkerTeam team(std::clamp<std::uint64_t>(num_usable_cores(), 1, std::max<std::uint64_t>(num_parts, 1)));
  team.for_each(static_cast<std::int64_t>(num_parts), [this](std::int64_t part, std::size_t) {
    const std::uint64_t first = static_cast<std::uint64_t>(part) * kPopulatedAtOnce;
    populate_pages(memory_.subspan(first, std::min(kPopulatedAtOnce, memory_.size() - first)));
  });
}

PageMemory::~PageMemory() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

PageMemory::PageMemory(PageMemory&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  return *this;
}

}  // namespace sluice
