// SPDX-License-Identifier: Apache-2.0
#include "plan/run_flow.h"

#include "base/check.h"

namespace sluice {
namespace {

// What goes through the staging ring goes in windows; a run of a few parts stands for its many.
constexpr std::size_t kRingParts = 4;

}  // namespace

RunFlow::RunFlow(const Machine& machine) : machine_(machine), graph_(static_cast<std::size_t>(StepQueue::kCount)) {}

// On a CPU that plays the device, kernels and the optimizer use every core. A copy uses one, and so does what moves to
// or from the drives: its lane checks or makes checksums while the kernel moves the pages. Beside a GPU there are cores
// enough.
double RunFlow::cores_of(StepQueue queue) const {
  if (machine_.device.kind == Processor::kGpu) return 0;
  const bool uses_all = queue == StepQueue::kCompute || queue == StepQueue::kOptimizer;
  return uses_all ? static_cast<double>(machine_.host.num_cores) : 1;
}

RunFlow::TaskId RunFlow::add(StepQueue queue, Lane lane, double seconds, std::initializer_list<TaskId> after) {
  load_.busy_s[static_cast<std::size_t>(lane)] += seconds;
  return graph_.add(static_cast<std::size_t>(queue), {.lane = lane, .seconds = seconds, .cores = cores_of(queue)},
                    after);
}

void RunFlow::compute(double seconds) {
  compute_waits_.push_back(issuer_);
  load_.busy_s[static_cast<std::size_t>(Lane::kCompute)] += seconds;
  computed_ =
      graph_.add(static_cast<std::size_t>(StepQueue::kCompute),
                 {.lane = Lane::kCompute, .seconds = seconds, .cores = cores_of(StepQueue::kCompute)}, compute_waits_);
  compute_waits_.clear();
}

void RunFlow::compute_after(TaskId id) {
  if (id != kNone) compute_waits_.push_back(id);
}

RunFlow::TaskId RunFlow::record() {
  if (!compute_waits_.empty()) compute(0);
  return computed_;
}

void RunFlow::wait(TaskId id) {
  if (id != kNone) issuer_ = add(StepQueue::kIssuer, Lane::kCompute, 0, {id});
}

double RunFlow::read_s(double bytes) const {
  CHECK(bytes == 0 || !machine_.drives.empty(), "drives to read from");
  return bytes == 0 ? 0 : bytes / machine_.drives_read_bytes_per_s();
}

double RunFlow::write_s(double bytes) const {
  CHECK(bytes == 0 || !machine_.drives.empty(), "drives to write to");
  return bytes == 0 ? 0 : bytes / machine_.drives_write_bytes_per_s();
}

void RunFlow::count_drives(double read_bytes, double written_bytes) {
  load_.drive_read_bytes += read_bytes;
  load_.drive_written_bytes += written_bytes;
}

RunFlow::TaskId RunFlow::begin(StepQueue queue, Lane lane, std::initializer_list<TaskId> after) {
  std::vector<TaskId> all(after);
  all.push_back(issuer_);
  return graph_.add(static_cast<std::size_t>(queue), {.lane = lane}, all);
}

RunFlow::Arrival RunFlow::bring(double bytes, Home home, std::initializer_list<TaskId> after) {
  if (home != Home::kNvme) {
    begin(StepQueue::kToDevice, Lane::kHostToDevice, after);
    return {.announced = kNone, .there = add(StepQueue::kToDevice, Lane::kHostToDevice, to_device_s(bytes), {})};
  }
  count_drives(bytes, 0);
  // Reads run ahead of copies by the ring alone, so a read waits for the place too.
  begin(StepQueue::kLoadRead, Lane::kNvmeToHost, after);
  const double part = bytes / kRingParts;
  std::array<TaskId, kRingParts> copies{};
  TaskId read = kNone;
  for (std::size_t idx = 0; idx < kRingParts; ++idx) {
    read = add(StepQueue::kLoadRead, Lane::kNvmeToHost, read_s(part), {idx < 2 ? kNone : copies[idx - 2]});
    copies[idx] = add(StepQueue::kLoadCopy, Lane::kHostToDevice, to_device_s(part), {read});
  }
  return {.announced = read, .there = copies.back()};
}

RunFlow::Departure RunFlow::send(double bytes, Home home, std::initializer_list<TaskId> after) {
  if (home != Home::kNvme) {
    begin(StepQueue::kFromDevice, Lane::kDeviceToHost, after);
    const TaskId sent = add(StepQueue::kFromDevice, Lane::kDeviceToHost, from_device_s(bytes), {});
    return {.device_free = sent, .stored = sent};
  }
  count_drives(0, bytes);
  begin(StepQueue::kSaveCopy, Lane::kDeviceToHost, after);
  const double part = bytes / kRingParts;
  std::array<TaskId, kRingParts> writes{};
  TaskId copy = kNone;
  for (std::size_t idx = 0; idx < kRingParts; ++idx) {
    copy = add(StepQueue::kSaveCopy, Lane::kDeviceToHost, from_device_s(part), {idx < 2 ? kNone : writes[idx - 2]});
    writes[idx] = add(StepQueue::kSaveWrite, Lane::kHostToNvme, write_s(part), {copy});
  }
  return {.device_free = copy, .stored = writes.back()};
}

std::vector<double> RunFlow::run() const {
  LaneGraph::Limits limits{.drives_both_ways = machine_.drives_both_ways()};
  if (machine_.device.kind == Processor::kCpu) limits.num_cores = static_cast<double>(machine_.host.num_cores);
  return graph_.run(limits);
}

}  // namespace sluice
