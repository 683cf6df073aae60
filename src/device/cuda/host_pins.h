// SPDX-License-Identifier: Apache-2.0
// Accounting of pinned host memory: the limit, the pinned bytes, and the buffers left pageable because of the limit,
// whose copies are staged. Shared by the device and its buffers. Thread-safe.
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

  // Whether there is a limit, so that some buffers may be pageable.
  bool is_limited() const;
  // Whether to pin a buffer of this size; if so, counts it. Small buffers are always pinned: kernels write into them.
  bool take(std::uint64_t size_bytes);
  void give_back(std::uint64_t size_bytes);

  void add_staged(std::span<const std::byte> buffer);
  void remove_staged(std::span<const std::byte> buffer);
  // Whether the address lies in a buffer given to add_staged().
  bool is_staged(const void* memory) const;

 private:
  const std::uint64_t pinnable_bytes_;
  mutable std::mutex mutex_;
  std::uint64_t pinned_bytes_ = 0;
  std::map<const std::byte*, std::size_t> staged_;  // begin and size of each pageable buffer
};

}  // namespace sluice::cuda
