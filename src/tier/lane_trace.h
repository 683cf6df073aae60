// SPDX-License-Identifier: Apache-2.0
// What each lane did and when: for tests that hold the drawings to their word, for pictures, for utilisation.
// Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"

namespace sluice {

enum class Lane { kNvmeToHost, kHostToDevice, kCompute, kDeviceToHost, kCpuOptimizer, kHostToNvme };

struct LaneSpan {
  Lane lane = Lane::kCompute;
  std::string slice;
  std::uint64_t offset = 0;  // of the part of the slice
  std::uint64_t size_bytes = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

class LaneTrace {
 public:
  explicit LaneTrace(const Clock& clock) : clock_(clock) {}

  std::int64_t now_ns() const { return clock_.now_ns(); }
  // Ends the span now.
  void add(LaneSpan span);
  std::vector<LaneSpan> spans() const;  // in the order they ended

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::vector<LaneSpan> spans_;
};

}  // namespace sluice
