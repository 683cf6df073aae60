// SPDX-License-Identifier: Apache-2.0
// What each lane did and when: for tests that hold the drawings to their word, for pictures, for utilisation. Every
// lane's busy time is counted as it goes, which costs next to nothing; the spans themselves are kept, or passed on,
// only where somebody wants them. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "device/device.h"
#include "io/ticket.h"

namespace sluice {

enum class Lane { kNvmeToHost, kHostToDevice, kCompute, kDeviceToHost, kCpuOptimizer, kHostToNvme };
inline constexpr std::size_t kNumLanes = 6;
std::string_view name(Lane lane);  // "host->device"

struct LaneSpan {
  Lane lane = Lane::kCompute;
  std::string slice;
  std::uint64_t offset = 0;      // of the part of the slice; in elements where the optimizer updates it
  std::uint64_t size_bytes = 0;  // likewise; 0 for compute
  std::int64_t begin_ns = 0;     // of a transfer to or from a drive: when it was submitted
  std::int64_t end_ns = 0;
};

// Seconds of each lane.
using LaneSeconds = std::array<double, kNumLanes>;

// The time that intervals cover together. They come in the order of their ends, nearly.
class BusyTime {
 public:
  void add(std::int64_t begin_ns, std::int64_t end_ns);
  std::int64_t total_ns() const { return total_ns_; }

 private:
  struct Interval {
    std::int64_t begin_ns, end_ns;
  };
  std::deque<Interval> last_;  // apart from one another, in order; what reaches back further is cut off
  std::int64_t settled_until_ns_ = std::numeric_limits<std::int64_t>::min();
  std::int64_t total_ns_ = 0;
};

class LaneTrace {
 public:
  enum class Keep : std::uint8_t { kSpans, kBusyTimes };
  // Sees every span as it ends, one at a time, in a lane's thread.
  using SpanSink = std::function<void(const LaneSpan&)>;
  explicit LaneTrace(const Clock& clock, Keep keep = Keep::kSpans, SpanSink sink = nullptr);

  std::int64_t now_ns() const { return clock_.now_ns(); }
  // Ends the span now.
  void add(LaneSpan span);
  // Adds a span whose end is known.
  void add_ended(LaneSpan span);

  // Lanes of the host are shown to a device's profilers, too; null: no more. Before lanes begin.
  void show_to(StartProfilerRange profiler) { profiler_ = profiler; }
  // What begins now, until it is let go; null where nobody looks.
  std::shared_ptr<void> show(Lane lane, std::string_view what) const {
    return profiler_ == nullptr ? nullptr : profiler_(name(lane), what);
  }

  std::vector<LaneSpan> spans() const;  // those kept, in the order they were added
  // In which at least one span of the lane was under way, from the start to the last end.
  LaneSeconds busy_s() const;

 private:
  void count(LaneSpan span);  // locked

  const Clock& clock_;
  const Keep keep_;
  const SpanSink sink_;
  StartProfilerRange profiler_ = nullptr;
  mutable std::mutex mutex_;
  std::array<BusyTime, kNumLanes> busy_;
  std::vector<LaneSpan> spans_;
};

// Adds the span when the transfer ends. Null: nobody traces.
void trace_transfer(LaneTrace* trace, const Ticket& ticket, LaneSpan span);

// A stream's work as spans of a lane, each as long as the stream goes on without a pause under one label.
class StreamTrace : public StreamWatcher {
 public:
  StreamTrace(LaneTrace& trace, Lane lane) : trace_(trace), lane_(lane) {}

  void begins() override;
  void ends() override;
  void worked(std::int64_t begin_ns, std::int64_t end_ns) override;
  // An empty one ends a span.
  void labelled(const std::string& text) override;

 private:
  void go_on(std::int64_t begin_ns);
  void flush();

  // One call at a time.
  LaneTrace& trace_;
  Lane lane_;
  std::string label_;
  std::int64_t begin_ns_ = 0;
  std::int64_t end_ns_ = 0;
  bool open_ = false;
};

}  // namespace sluice
