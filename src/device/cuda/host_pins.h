// SPDX-License-Identifier: Apache-2.0
// How much host memory a device has pinned, of how much it may pin, and which buffers it did not pin for that reason:
// copies of those are staged. Shared by the device and its buffers. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

namespace sluice::cuda {

class HostPins {
 public:
  explicit HostPins(std::uint64_t pinnable_bytes) : pinnable_bytes_(pinnable_bytes) {}

  // Whether there may be buffers that are not pinned.
  bool is_limited() const;
  // Whether a buffer of the size is to be pinned; counts it then. Small ones always are: kernels write into them.
  bool take(std::uint64_t size_bytes);
  void give_back(std::uint64_t size_bytes);

  void add_staged(std::span<const std::byte> buffer);
  void remove_staged(std::span<const std::byte> buffer);
  // Whether the address is in a buffer that was added.
  bool is_staged(const void* memory) const;

 private:
  const std::uint64_t pinnable_bytes_;
  mutable std::mutex mutex_;
  std::uint64_t pinned_bytes_ = 0;
  std::map<const std::byte*, std::size_t> staged_;  // where they begin, and their sizes
};

}  // namespace sluice::cuda
