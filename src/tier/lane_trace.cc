// SPDX-License-Identifier: Apache-2.0
#include "tier/lane_trace.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

// Transfers that are under way at once end in no particular order, but not this far from it.
constexpr std::size_t kMostIntervals = 256;

// Below this a stream has gone on without a pause.
constexpr std::int64_t kPauseNs = 50'000;

}  // namespace

std::string_view name(Lane lane) {
  switch (lane) {
    case Lane::kNvmeToHost:
      return "nvme->host";
    case Lane::kHostToDevice:
      return "host->device";
    case Lane::kCompute:
      return "compute";
    case Lane::kDeviceToHost:
      return "device->host";
    case Lane::kCpuOptimizer:
      return "cpu-optimizer";
    case Lane::kHostToNvme:
      return "host->nvme";
  }
  return "";
}

void BusyTime::add(std::int64_t begin_ns, std::int64_t end_ns) {
  if (last_.size() == kMostIntervals) {
    settled_until_ns_ = last_.front().end_ns;
    last_.pop_front();
  }
  begin_ns = std::max(begin_ns, settled_until_ns_);
  if (begin_ns >= end_ns) return;
  // Takes in what it touches, and stands where those stood.
  auto at = last_.end();
  while (at != last_.begin() && std::prev(at)->begin_ns > end_ns) --at;
  while (at != last_.begin() && std::prev(at)->end_ns >= begin_ns) {
    const Interval touched = *std::prev(at);
    total_ns_ -= touched.end_ns - touched.begin_ns;
    begin_ns = std::min(begin_ns, touched.begin_ns);
    end_ns = std::max(end_ns, touched.end_ns);
    at = last_.erase(std::prev(at));
  }
  total_ns_ += end_ns - begin_ns;
  last_.insert(at, {begin_ns, end_ns});
}

LaneTrace::LaneTrace(const Clock& clock, Keep keep, SpanSink sink)
    : clock_(clock), keep_(keep), sink_(std::move(sink)) {}

void LaneTrace::add(LaneSpan span) {
  const std::scoped_lock lock(mutex_);
  span.end_ns = clock_.now_ns();  // here, so that ends come in their order
  count(std::move(span));
}

void LaneTrace::add_ended(LaneSpan span) {
  const std::scoped_lock lock(mutex_);
  count(std::move(span));
}

void LaneTrace::count(LaneSpan span) {
  busy_[static_cast<std::size_t>(span.lane)].add(span.begin_ns, span.end_ns);
  if (sink_) sink_(span);
  if (keep_ == Keep::kSpans) spans_.push_back(std::move(span));
}

std::vector<LaneSpan> LaneTrace::spans() const {
  const std::scoped_lock lock(mutex_);
  return spans_;
}

LaneSeconds LaneTrace::busy_s() const {
  const std::scoped_lock lock(mutex_);
  LaneSeconds seconds{};
  for (std::size_t idx = 0; idx < kNumLanes; ++idx) seconds[idx] = static_cast<double>(busy_[idx].total_ns()) * 1e-9;
  return seconds;
}

void trace_transfer(LaneTrace* trace, const Ticket& ticket, LaneSpan span) {
  if (trace == nullptr || !ticket.state()) return;
  std::shared_ptr<void> shown = trace->show(span.lane, span.slice);  // shared, as std::function asks for copies
  ticket.state()->when_settled([trace, shown = std::move(shown), span = std::move(span)]() mutable {
    shown.reset();
    trace->add(span);
  });
}

void StreamTrace::labelled(const std::string& text) {
  if (text == label_) return;
  flush();
  label_ = text;
}

void StreamTrace::begins() { go_on(trace_.now_ns()); }

void StreamTrace::worked(std::int64_t begin_ns, std::int64_t end_ns) {
  go_on(begin_ns);
  end_ns_ = end_ns;
}

void StreamTrace::go_on(std::int64_t begin_ns) {
  if (open_ && begin_ns - end_ns_ > kPauseNs) flush();
  if (!open_) begin_ns_ = begin_ns;
  open_ = true;
}

void StreamTrace::ends() { end_ns_ = trace_.now_ns(); }

void StreamTrace::flush() {
  if (open_ && end_ns_ > begin_ns_) {
    trace_.add_ended({.lane = lane_, .slice = label_, .begin_ns = begin_ns_, .end_ns = end_ns_});
  }
  open_ = false;
}

}  // namespace sluice
