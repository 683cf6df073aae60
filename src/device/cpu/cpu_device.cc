// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/cpu_device.h"

#include <algorithm>
#include <memory>

#include <fmt/core.h>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"
#include "device/cpu/cpu_stream.h"

namespace sluice {
CpuDevice::CpuDevice(std::uint64_t arena_bytes, std::size_t num_threads)
    : team_(num_threads), arena_(round_down(arena_bytes, kAlignment)), ranges_(arena_.size_bytes(), kAlignment) {}

CpuDevice::~CpuDevice() { CHECK(ranges_.free_bytes() == arena_.size_bytes(), "buffers die before their device"); }

std::unique_ptr<Stream> CpuDevice::make_stream(const std::string& name) {
  return std::make_unique<CpuStream>(name, team_);
}

Buffer CpuDevice::allocate(std::uint64_t size_bytes, std::string_view who) {
  const std::scoped_lock lock(mutex_);
  const auto range = ranges_.take(size_bytes);
  if (!range) {
    throw OutOfBudget(fmt::format(
        "{} asked for {} of device memory, but of {} only {} is free, {} in one piece: raise the device budget", who,
        format_bytes(size_bytes), format_bytes(arena_.size_bytes()), format_bytes(ranges_.free_bytes()),
        format_bytes(ranges_.largest_free_bytes())));
  }
  peak_bytes_ = std::max(peak_bytes_, arena_.size_bytes() - ranges_.free_bytes());
  return Buffer(arena_.bytes().subspan(range->offset, size_bytes), [this, taken = *range](std::span<std::byte>) {
    const std::scoped_lock guard(mutex_);
    ranges_.release(taken);
  });
}

Buffer CpuDevice::allocate_pinned(std::uint64_t size_bytes) {
  auto memory = std::make_shared<PageMemory>(size_bytes);  // owned by the buffer's give-back alone
  memory->populate();
  const std::span<std::byte> bytes = memory->bytes();
  return Buffer(bytes, [memory](std::span<std::byte>) {});
}

std::uint64_t CpuDevice::free_bytes() const {
  const std::scoped_lock lock(mutex_);
  return ranges_.free_bytes();
}

std::uint64_t CpuDevice::peak_bytes() const {
  const std::scoped_lock lock(mutex_);
  return peak_bytes_;
}

}  // namespace sluice
