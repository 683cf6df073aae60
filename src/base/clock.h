// SPDX-License-Identifier: Apache-2.0
// Time as a dependency, so that no test sleeps. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sluice {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t now_ns() const = 0;
};

class SteadyClock : public Clock {
 public:
  std::int64_t now_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

class ManualClock : public Clock {
 public:
  std::int64_t now_ns() const override { return now_ns_.load(); }
  void advance_ns(std::int64_t delta_ns) { now_ns_ += delta_ns; }

 private:
  std::atomic<std::int64_t> now_ns_{0};
};

// Seconds since construction.
class Stopwatch {
 public:
  explicit Stopwatch(const Clock& clock) : clock_(clock), start_ns_(clock.now_ns()) {}
  double seconds() const { return static_cast<double>(clock_.now_ns() - start_ns_) * 1e-9; }

 private:
  const Clock& clock_;
  std::int64_t start_ns_;
};

}  // namespace sluice
