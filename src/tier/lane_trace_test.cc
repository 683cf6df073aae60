// SPDX-License-Identifier: Apache-2.0
#include "tier/lane_trace.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "device/cpu/cpu_device.h"

namespace sluice {
namespace {

// Second by second, which of them any interval covers.
std::int64_t covered(const std::vector<std::pair<std::int64_t, std::int64_t>>& intervals, std::int64_t until) {
  std::int64_t count = 0;
  for (std::int64_t at = 0; at < until; ++at) {
    count += std::any_of(intervals.begin(), intervals.end(),
                         [at](const auto& one) { return one.first <= at && at < one.second; })
                 ? 1
                 : 0;
  }
  return count;
}

TEST(BusyTime, IsTheTimeThatAnyIntervalCovers) {
  Random random(7);
  for (int round = 0; round < 50; ++round) {
    BusyTime busy;
    std::vector<std::pair<std::int64_t, std::int64_t>> intervals;
    for (int idx = 0; idx < 200; ++idx) {
      const auto begin = static_cast<std::int64_t>(random.below(2000));
      intervals.emplace_back(begin, begin + static_cast<std::int64_t>(random.below(20)));
    }
    if (round % 2 == 0) {
      std::sort(intervals.begin(), intervals.end(), [](auto& one, auto& two) { return one.second < two.second; });
    }
    for (const auto& [begin, end] : intervals) busy.add(begin, end);
    EXPECT_EQ(busy.total_ns(), covered(intervals, 2100)) << round;
  }
}

TEST(BusyTime, CountsOnWithoutRememberingEverything) {
  BusyTime busy;
  for (std::int64_t idx = 0; idx < 10000; ++idx) busy.add(10 * idx, 10 * idx + 4);
  EXPECT_EQ(busy.total_ns(), 40000);
}

TEST(LaneTrace, ATransferEndsWhenItsTicketSettles) {
  ManualClock clock;
  LaneTrace trace(clock);
  const auto state = std::make_shared<TicketState>(2);
  Ticket ticket(state);
  trace_transfer(&trace, ticket, {.lane = Lane::kNvmeToHost, .slice = "a", .size_bytes = 8, .begin_ns = 0});
  clock.advance_ns(5);
  state->finish_one(nullptr);
  EXPECT_TRUE(trace.spans().empty());
  clock.advance_ns(5);
  state->finish_one(nullptr);
  clock.advance_ns(100);  // who waits for it late makes it no longer
  ticket.wait();
  ASSERT_EQ(trace.spans().size(), 1U);
  EXPECT_EQ(trace.spans()[0].end_ns, 10);
  EXPECT_DOUBLE_EQ(trace.busy_s()[0], 10e-9);
}

TEST(StreamTrace, WorkIsASpanAndWaitingIsNone) {
  ManualClock clock;
  LaneTrace trace(clock);
  StreamTrace compute(trace, Lane::kCompute);
  CpuDevice device(4096);
  const auto other = device.make_stream("other");
  const auto stream = device.make_stream("compute");
  stream->watch(&compute);
  const auto work = [&](std::int64_t ns) { stream->run([&clock, ns] { clock.advance_ns(ns); }); };
  stream->label("a");
  work(100);
  work(200);
  stream->synchronize();
  other->run([&] { clock.advance_ns(1'000'000); });
  stream->wait(other->record());
  work(300);
  stream->label("b");
  work(400);
  stream->label("");
  stream->synchronize();
  std::vector<std::pair<std::string, std::int64_t>> seen;
  for (const LaneSpan& span : trace.spans()) seen.emplace_back(span.slice, span.end_ns - span.begin_ns);
  const std::vector<std::pair<std::string, std::int64_t>> expected{{"a", 300}, {"a", 300}, {"b", 400}};
  EXPECT_EQ(seen, expected);
}

int num_shown = 0;  // under way; a profiler is a function alone
std::string last_shown;

TEST(LaneTrace, ShowsWhatIsUnderWayToAProfiler) {
  const SteadyClock clock;
  LaneTrace trace(clock);
  EXPECT_EQ(trace.show(Lane::kCpuOptimizer, "nobody looks"), nullptr);
  trace.show_to([](std::string_view lane, std::string_view what) -> std::shared_ptr<void> {
    ++num_shown;
    last_shown = std::string(lane) + ": " + std::string(what);
    return {&num_shown, [](void*) { --num_shown; }};
  });
  {
    const std::shared_ptr<void> shown = trace.show(Lane::kCpuOptimizer, "block.3");
    EXPECT_EQ(num_shown, 1);
    EXPECT_EQ(last_shown, "cpu-optimizer: block.3");
  }
  EXPECT_EQ(num_shown, 0);
  const auto state = std::make_shared<TicketState>(1);
  const Ticket ticket(state);
  trace_transfer(&trace, ticket, {.lane = Lane::kHostToNvme, .slice = "w/block.4"});
  EXPECT_EQ(num_shown, 1);
  EXPECT_EQ(last_shown, "host->nvme: w/block.4");
  state->finish_one(nullptr);
  EXPECT_EQ(num_shown, 0);
}

}  // namespace
}  // namespace sluice
