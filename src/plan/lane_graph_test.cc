// SPDX-License-Identifier: Apache-2.0
#include "plan/lane_graph.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using TaskId = LaneGraph::TaskId;

TEST(LaneGraph, AQueueKeepsItsOrderThoughALaterTaskCouldRun) {
  LaneGraph graph(2);
  const TaskId slow = graph.add(0, {.lane = Lane::kCompute, .seconds = 5}, {});
  const TaskId waits = graph.add(1, {.lane = Lane::kHostToDevice, .seconds = 1}, {slow});
  const TaskId behind = graph.add(1, {.lane = Lane::kHostToDevice, .seconds = 1}, {});
  const std::vector<double> ends = graph.run();
  EXPECT_DOUBLE_EQ(ends[static_cast<std::size_t>(waits)], 6);
  EXPECT_DOUBLE_EQ(ends[static_cast<std::size_t>(behind)], 7);
}

TEST(LaneGraph, TwoQueuesShareALaneWhileBothHaveWork) {
  LaneGraph graph(2);
  graph.add(0, {.lane = Lane::kNvmeToHost, .seconds = 1}, {});
  graph.add(1, {.lane = Lane::kNvmeToHost, .seconds = 3}, {});
  const std::vector<double> ends = graph.run();
  EXPECT_DOUBLE_EQ(ends[0], 2);
  EXPECT_DOUBLE_EQ(ends[1], 4);
}

TEST(LaneGraph, TasksThatWantMoreCoresThanThereAreSlowDownAlike) {
  LaneGraph graph(3);
  graph.add(0, {.lane = Lane::kCompute, .seconds = 1, .cores = 2}, {});
  graph.add(1, {.lane = Lane::kCpuOptimizer, .seconds = 1, .cores = 2}, {});
  graph.add(2, {.lane = Lane::kNvmeToHost, .seconds = 1}, {});
  const std::vector<double> ends = graph.run({.num_cores = 2});
  EXPECT_DOUBLE_EQ(ends[0], 2);
  EXPECT_DOUBLE_EQ(ends[1], 2);
  EXPECT_DOUBLE_EQ(ends[2], 1);
}

TEST(LaneGraph, MarksTakeNoTimeAndNoPartOfTheLane) {
  LaneGraph graph(2);
  graph.add(0, {.lane = Lane::kCompute, .seconds = 2}, {});
  const TaskId mark = graph.add(1, {.lane = Lane::kCompute}, {});
  const TaskId last = graph.add(1, {.lane = Lane::kDeviceToHost, .seconds = 1}, {mark});
  const std::vector<double> ends = graph.run();
  EXPECT_DOUBLE_EQ(ends[0], 2);
  EXPECT_DOUBLE_EQ(ends[static_cast<std::size_t>(last)], 1);
}

TEST(LaneGraph, TheCriticalChainAddsUpToTheTimeAndNamesWhatWasWaitedFor) {
  LaneGraph graph(3);
  const TaskId read = graph.add(0, {.lane = Lane::kNvmeToHost, .seconds = 4}, {});
  const TaskId idle = graph.add(1, {.lane = Lane::kDeviceToHost, .seconds = 3}, {});
  const TaskId compute = graph.add(2, {.lane = Lane::kCompute, .seconds = 2}, {read, idle});
  const std::vector<double> ends = graph.run();
  const auto seconds = graph.critical_s(ends, compute, 1);
  EXPECT_DOUBLE_EQ(seconds[static_cast<std::size_t>(Lane::kNvmeToHost)], 3);
  EXPECT_DOUBLE_EQ(seconds[static_cast<std::size_t>(Lane::kCompute)], 2);
  EXPECT_DOUBLE_EQ(seconds[static_cast<std::size_t>(Lane::kDeviceToHost)], 0);
}

TEST(LaneGraph, DrivesThatReadAndWriteAtOnceAreSlowerOnlyWhileTheyDo) {
  LaneGraph graph(2);
  graph.add(0, {.lane = Lane::kNvmeToHost, .seconds = 1}, {});
  graph.add(1, {.lane = Lane::kHostToNvme, .seconds = 3}, {});
  const std::vector<double> ends = graph.run({.drives_both_ways = 0.5});
  EXPECT_DOUBLE_EQ(ends[0], 2);
  EXPECT_DOUBLE_EQ(ends[1], 4);
}

}  // namespace
}  // namespace sluice
