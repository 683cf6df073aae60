// SPDX-License-Identifier: Apache-2.0
// Bytes that a store has written to each drive over its whole life, journal included. Kept in every commit record, so
// a crash forgets at most what the unfinished commit wrote. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace sluice {

class WearMeter {
 public:
  explicit WearMeter(const std::vector<std::uint64_t>& drive_bytes);

  void add(std::uint32_t drive_idx, std::uint64_t bytes) { drives_[drive_idx] += bytes; }
  std::vector<std::uint64_t> drive_bytes() const;

 private:
  std::deque<std::atomic<std::uint64_t>> drives_;
};

}  // namespace sluice
