// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/host_pins.h"

#include <algorithm>

#include "base/units.h"
#include "device/cuda_plugin.h"

namespace sluice::cuda {
namespace {

constexpr std::uint64_t kAlwaysPinnedBytes = 64 * kKiB;

}  // namespace

bool HostPins::is_limited() const { return pinnable_bytes_ != kPinsEverything; }

bool HostPins::take(std::uint64_t size_bytes) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t left_bytes = pinnable_bytes_ - std::min(pinnable_bytes_, pinned_bytes_);
  if (size_bytes > kAlwaysPinnedBytes && size_bytes > left_bytes) return false;
  pinned_bytes_ += size_bytes;
  return true;
}

void HostPins::give_back(std::uint64_t size_bytes) {
  const std::scoped_lock lock(mutex_);
  pinned_bytes_ -= size_bytes;
}

void HostPins::add_staged(std::span<const std::byte> buffer) {
  const std::scoped_lock lock(mutex_);
  staged_.emplace(buffer.data(), buffer.size());
}

void HostPins::remove_staged(std::span<const std::byte> buffer) {
  const std::scoped_lock lock(mutex_);
  staged_.erase(buffer.data());
}

bool HostPins::is_staged(const void* memory) const {
  const auto* const address = static_cast<const std::byte*>(memory);
  const std::scoped_lock lock(mutex_);
  const auto past = staged_.upper_bound(address);
  if (past == staged_.begin()) return false;
  const auto& [first, size] = *std::prev(past);
  return address < first + size;
}

}  // namespace sluice::cuda
