// SPDX-License-Identifier: Apache-2.0
// The time of day, for what people and TensorBoard read; durations take SteadyClock. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace sluice {

class WallClock : public Clock {
 public:
  std::int64_t now_ns() const override {  // since 1970
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace sluice
