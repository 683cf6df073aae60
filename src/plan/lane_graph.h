// SPDX-License-Identifier: Apache-2.0
// Work on lanes, as a graph: every task stands in a queue that keeps its order, waits for others, and then uses a lane
// for some seconds. Queues that share a lane share its speed evenly while both have work, as two copies on one link do.
// Tasks may want cores as well; where they want more than there are, all of those slow down alike. So do the two lanes
// of drives that are slower while they read and write at once. For one thread.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

#include "tier/lane_trace.h"

namespace sluice {

class LaneGraph {
 public:
  using TaskId = std::int32_t;
  static constexpr TaskId kNone = -1;

  struct Task {
    Lane lane = Lane::kCompute;
    double seconds = 0;  // alone on its lane; 0: a mark, which takes no part of the lane
    double cores = 0;
  };

  explicit LaneGraph(std::size_t num_queues) : queues_(num_queues) {}

  // After everything that the queue has, and after `after` (kNone: nothing), which were added before.
  TaskId add(std::size_t queue_idx, const Task& task, std::span<const TaskId> after);
  TaskId add(std::size_t queue_idx, const Task& task, std::initializer_list<TaskId> after) {
    return add(queue_idx, task, std::span<const TaskId>(after.begin(), after.size()));
  }

  std::size_t num_tasks() const { return tasks_.size(); }
  const Task& task(std::size_t idx) const { return tasks_[idx]; }

  struct Limits {
    double num_cores = std::numeric_limits<double>::infinity();
    double drives_both_ways = 1;  // of the speed of either way
  };
  // When each task ends, in seconds from the start.
  std::vector<double> run(const Limits& limits) const;
  std::vector<double> run() const { return run(Limits()); }

  // What kept `last` from ending sooner, back to the time `since_s`: the seconds of each lane on the chain of tasks of
  // which each began when the one before had ended. They add up to the time in between.
  std::array<double, kNumLanes> critical_s(const std::vector<double>& ends, TaskId last, double since_s) const;

 private:
  struct Running;

  std::span<const TaskId> after(TaskId id) const;

  std::vector<Task> tasks_;
  std::vector<std::size_t> after_end_;  // of a task's part of after_
  std::vector<TaskId> after_;
  std::vector<TaskId> before_;  // each task's in its queue
  std::vector<std::vector<TaskId>> queues_;
};

}  // namespace sluice
