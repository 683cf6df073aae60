// SPDX-License-Identifier: Apache-2.0
// A step's work as tasks on lanes, put there as the trainer puts it: one issuing thread that sometimes waits, a stream
// that computes, and runs that are brought to the device and sent home as RunKeeper does, through the staging ring
// where they live on the drives. For one thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/lane_graph.h"
#include "plan/machine.h"
#include "plan/schedule.h"

namespace sluice {

enum class StepQueue : std::uint8_t {
  kIssuer,
  kCompute,
  kToDevice,  // from host memory
  kLoadRead,  // from the drives …
  kLoadCopy,  // … and on to the device
  kFromDevice,
  kSaveCopy,
  kSaveWrite,
  kOptimizerFromDevice,
  kOptimizerRead,
  kOptimizer,
  kOptimizerWrite,
  kOptimizerToDevice,
  kCount,
};

struct LaneLoad {
  std::array<double, kNumLanes> busy_s{};
  double drive_written_bytes = 0;
  double drive_read_bytes = 0;

  double of(Lane lane) const { return busy_s[static_cast<std::size_t>(lane)]; }
};

class RunFlow {
 public:
  using TaskId = LaneGraph::TaskId;
  static constexpr TaskId kNone = LaneGraph::kNone;

  explicit RunFlow(const Machine& machine);

  void compute(double seconds);
  // What the stream does from here on comes after `id`.
  void compute_after(TaskId id);
  TaskId record();
  // The issuing thread waits.
  void wait(TaskId id);
  TaskId issuer() const { return issuer_; }

  struct Arrival {
    TaskId announced = kNone;  // the issuing thread can wait for `there`
    TaskId there = kNone;
  };
  Arrival bring(double bytes, Home home, std::initializer_list<TaskId> after);

  struct Departure {
    TaskId device_free = kNone;
    TaskId stored = kNone;
  };
  Departure send(double bytes, Home home, std::initializer_list<TaskId> after);

  // Any task of a lane, counted.
  TaskId add(StepQueue queue, Lane lane, double seconds, std::initializer_list<TaskId> after);

  double read_s(double bytes) const;
  double write_s(double bytes) const;
  double to_device_s(double bytes) const { return bytes / machine_.links.to_device_bytes_per_s; }
  double from_device_s(double bytes) const { return bytes / machine_.links.from_device_bytes_per_s; }
  void count_drives(double read_bytes, double written_bytes);

  const LaneGraph& graph() const { return graph_; }
  const LaneLoad& load() const { return load_; }  // since the start
  std::vector<double> run() const;

 private:
  double cores_of(StepQueue queue) const;
  // A mark in the queue, once the issuing thread has come here and `after` are through.
  TaskId begin(StepQueue queue, Lane lane, std::initializer_list<TaskId> after);

  const Machine& machine_;
  LaneGraph graph_;
  LaneLoad load_;
  TaskId issuer_ = kNone;
  TaskId computed_ = kNone;
  std::vector<TaskId> compute_waits_;  // of the next task on the stream
};

}  // namespace sluice
