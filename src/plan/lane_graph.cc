// SPDX-License-Identifier: Apache-2.0
#include "plan/lane_graph.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {

LaneGraph::TaskId LaneGraph::add(std::size_t queue_idx, const Task& task, std::span<const TaskId> after) {
  const auto id = static_cast<TaskId>(tasks_.size());
  for (const TaskId one : after) {
    if (one == kNone) continue;
    CHECK(one >= 0 && one < id, "a task waits for earlier ones");
    after_.push_back(one);
  }
  tasks_.push_back(task);
  after_end_.push_back(after_.size());
  before_.push_back(queues_[queue_idx].empty() ? kNone : queues_[queue_idx].back());
  queues_[queue_idx].push_back(id);
  return id;
}

std::span<const LaneGraph::TaskId> LaneGraph::after(TaskId id) const {
  const auto at = static_cast<std::size_t>(id);
  const std::size_t begin = at == 0 ? 0 : after_end_[at - 1];
  return std::span(after_).subspan(begin, after_end_[at] - begin);
}

std::array<double, kNumLanes> LaneGraph::critical_s(const std::vector<double>& ends, TaskId last,
                                                    double since_s) const {
  std::array<double, kNumLanes> seconds{};
  const auto end_of = [&](TaskId id) { return id == kNone ? 0 : ends[static_cast<std::size_t>(id)]; };
  for (TaskId id = last; id != kNone && end_of(id) > since_s;) {
    TaskId cause = before_[static_cast<std::size_t>(id)];
    for (const TaskId one : after(id)) {
      if (cause == kNone || end_of(one) > end_of(cause)) cause = one;
    }
    const Lane lane = tasks_[static_cast<std::size_t>(id)].lane;
    seconds[static_cast<std::size_t>(lane)] += end_of(id) - std::max(end_of(cause), since_s);
    id = cause;
  }
  return seconds;
}

// The first task of a queue, if it may run.
struct LaneGraph::Running {
  std::size_t queue_idx = 0;
  TaskId id = kNone;
};

std::vector<double> LaneGraph::run(const Limits& limits) const {
  constexpr double kNotYet = -1;
  // What rounding leaves of a task that ends together with another.
  constexpr double kNothing = 1e-12;
  std::vector<double> ends(tasks_.size(), kNotYet);
  std::vector<std::size_t> heads(queues_.size(), 0);
  std::vector<double> left(queues_.size(), kNotYet);  // seconds of the first task; kNotYet: it waits
  double now = 0;
  std::size_t num_done = 0;
  const auto may_run = [&](TaskId id) {
    for (const TaskId one : after(id)) {
      if (ends[static_cast<std::size_t>(one)] < 0) return false;
    }
    return true;
  };
  std::vector<Running> running;
  while (num_done < tasks_.size()) {
    // Marks let others begin at the same instant.
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t queue_idx = 0; queue_idx < queues_.size(); ++queue_idx) {
        while (left[queue_idx] < 0 && heads[queue_idx] < queues_[queue_idx].size()) {
          const TaskId id = queues_[queue_idx][heads[queue_idx]];
          if (!may_run(id)) break;
          const double seconds = tasks_[static_cast<std::size_t>(id)].seconds;
          if (seconds > 0) {
            left[queue_idx] = seconds;
            break;
          }
          ends[static_cast<std::size_t>(id)] = now;
          ++heads[queue_idx];
          ++num_done;
          changed = true;
        }
      }
    }
    running.clear();
    std::array<double, kNumLanes> users{};
    double cores = 0;
    for (std::size_t queue_idx = 0; queue_idx < queues_.size(); ++queue_idx) {
      if (left[queue_idx] < 0) continue;
      const TaskId id = queues_[queue_idx][heads[queue_idx]];
      const Task& task = tasks_[static_cast<std::size_t>(id)];
      running.push_back({queue_idx, id});
      users[static_cast<std::size_t>(task.lane)] += 1;
      cores += task.cores;
    }
    if (running.empty()) break;
    const double core_rate = cores > limits.num_cores ? limits.num_cores / cores : 1;
    const auto users_of = [&](Lane lane) { return users[static_cast<std::size_t>(lane)]; };
    const bool both_ways = users_of(Lane::kNvmeToHost) > 0 && users_of(Lane::kHostToNvme) > 0;
    const auto rate = [&](const Task& task) {
      const bool of_drives = task.lane == Lane::kNvmeToHost || task.lane == Lane::kHostToNvme;
      return (task.cores > 0 ? core_rate : 1) * (of_drives && both_ways ? limits.drives_both_ways : 1) /
             users_of(task.lane);
    };
    double step_s = std::numeric_limits<double>::infinity();
    for (const Running& one : running) {
      step_s = std::min(step_s, left[one.queue_idx] / rate(tasks_[static_cast<std::size_t>(one.id)]));
    }
    now += step_s;
    for (const Running& one : running) {
      const Task& task = tasks_[static_cast<std::size_t>(one.id)];
      left[one.queue_idx] -= step_s * rate(task);
      if (left[one.queue_idx] > kNothing * (1 + task.seconds)) continue;
      left[one.queue_idx] = kNotYet;
      ends[static_cast<std::size_t>(one.id)] = now;
      ++heads[one.queue_idx];
      ++num_done;
    }
  }
  CHECK(num_done == tasks_.size(), "no task waits for one behind it in its queue");
  return ends;
}

}  // namespace sluice
