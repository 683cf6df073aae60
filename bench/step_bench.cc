// SPDX-License-Identifier: Apache-2.0
#include "bench/step_bench.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "bench/statistics.h"
#include "io/choose_engine.h"
#include "io/drive_speed.h"
#include "io/posix/posix_file.h"
#include "ops/cross_entropy.h"
#include "train/training_session.h"

namespace sluice {
namespace {

// As a run's packed sequences are: full, every token learned but the last.
class RandomTokens {
 public:
  explicit RandomTokens(const PlanRequest& request) : request_(request), random_(1) {}

  // Good until the next.
  std::vector<PackedDocuments> step() {
    const auto length = static_cast<std::size_t>(request_.sequence_len);
    const auto per_batch = static_cast<std::size_t>(request_.micro_batch_size);
    ids_.assign(per_batch * static_cast<std::size_t>(request_.accumulation), std::vector<std::int32_t>(length));
    labels_ = ids_;
    std::vector<PackedDocuments> batches(static_cast<std::size_t>(request_.accumulation));
    for (std::size_t idx = 0; idx < ids_.size(); ++idx) {
      for (std::int32_t& id : ids_[idx]) {
        id = static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(request_.arch.vocab)));
      }
      std::copy(ids_[idx].begin() + 1, ids_[idx].end(), labels_[idx].begin());
      labels_[idx].back() = length > 1 ? kIgnoreLabel : ids_[idx].front();
      batches[idx / per_batch].push_back({.ids = ids_[idx], .labels = labels_[idx]});
    }
    return batches;
  }

 private:
  const PlanRequest& request_;
  Random random_;
  std::vector<std::vector<std::int32_t>> ids_, labels_;
};

double median_of(const std::vector<StepBenchResult::Step>& steps, const auto& value) {
  std::vector<double> values;
  values.reserve(steps.size());
  for (const StepBenchResult::Step& step : steps) values.push_back(value(step));
  return median(std::move(values));
}

void summarize(StepBenchResult& result) {
  using Step = StepBenchResult::Step;
  result.step_s = median_of(result.steps, [](const Step& step) { return step.seconds; });
  result.ratio = median_of(result.steps, [](const Step& step) { return step.seconds / step.bound_s; });
  for (std::size_t idx = 0; idx < kNumLanes; ++idx) {
    result.busy_s[idx] = median_of(result.steps, [idx](const Step& step) { return step.busy_s[idx]; });
  }
  const auto busiest = std::max_element(result.busy_s.begin(), result.busy_s.end());
  result.bound = static_cast<Lane>(busiest - result.busy_s.begin());
  result.bound_s = *busiest;
  result.drives_s = median_of(result.steps, [](const Step& step) { return step.drives_s; });
}

void count_drive_bytes(const std::vector<LaneSpan>& spans, std::int64_t begin_ns, std::int64_t end_ns,
                       StepBenchResult::Step& step) {
  for (const LaneSpan& span : spans) {
    if (span.end_ns <= begin_ns || span.end_ns > end_ns) continue;
    if (span.lane == Lane::kNvmeToHost) step.read_bytes += span.size_bytes;
    if (span.lane == Lane::kHostToNvme) step.written_bytes += span.size_bytes;
  }
}

double drives_seconds(const StepBenchResult::Step& step, const Machine& machine) {
  if (machine.drives.empty()) return 0;
  const auto read = static_cast<double>(step.read_bytes);
  const auto written = static_cast<double>(step.written_bytes);
  const double read_rate = machine.drives_read_bytes_per_s();
  const double write_rate = machine.drives_write_bytes_per_s();
  return std::max({read / read_rate, written / write_rate,
                   (read + written) / ((read_rate + write_rate) * machine.drives_both_ways())});
}

// With at most so much that the drives still have room beside what a step left there. What was measured of the steps
// stands, whatever comes of this: a drive that cannot be measured keeps the speeds of the plan.
void measure_drives(const std::vector<std::string>& directories, const StepBenchResult::Step& step,
                    const ProgressSink& progress, std::vector<MachineDrive>& drives) {
  constexpr std::uint64_t kLeastBytes = 64 * kMiB;
  constexpr std::uint64_t kMostBytes = 4 * kGiB;
  CHECK(directories.size() == drives.size(), "a directory for each drive");
  const EngineChoice choice = choose_engine(directories);
  PosixFileSystem files;
  const SteadyClock clock;
  const std::uint64_t moved = std::max(step.read_bytes, step.written_bytes) / drives.size();
  for (std::size_t idx = 0; idx < drives.size(); ++idx) {
    if (progress.interrupted()) return;
    progress.report(
        {.what = "measuring drives", .done = idx, .total = drives.size(), .unit = ProgressUnit::kMeasurements});
    const std::uint64_t most = std::min(kMostBytes, files.free_bytes(directories[idx]) / 2);
    if (most < kLeastBytes) continue;
    try {
      const DriveSpeed speed =
          measure_drive({.files = files, .engine = *choice.engine, .caching = choice.caching, .clock = clock},
                        directories[idx], std::clamp(moved, kLeastBytes, most));
      drives[idx].read_bytes_per_s = speed.read_gb_per_s * 1e9;
      drives[idx].write_bytes_per_s = speed.write_gb_per_s * 1e9;
      drives[idx].mixed_bytes_per_s = speed.mixed_gb_per_s * 1e9;
    } catch (const IoError& error) {
      log_warning(fmt::format("the speed that '{}' keeps up is not known: {}", directories[idx], error.what()));
    }
  }
}

// Seconds in which a lane had something under way, between two times.
LaneSeconds busy_between(const std::vector<LaneSpan>& spans, std::int64_t begin_ns, std::int64_t end_ns) {
  std::array<BusyTime, kNumLanes> busy;
  for (const LaneSpan& span : spans) {
    busy[static_cast<std::size_t>(span.lane)].add(std::max(span.begin_ns, begin_ns), std::min(span.end_ns, end_ns));
  }
  LaneSeconds seconds{};
  for (std::size_t idx = 0; idx < kNumLanes; ++idx) seconds[idx] = static_cast<double>(busy[idx].total_ns()) * 1e-9;
  return seconds;
}

}  // namespace

StepBenchResult run_step_bench(const StepBenchOptions& options, const ProgressSink& progress) {
  const SteadyClock clock;
  PosixFileSystem files;
  std::optional<LaneTraceFile> file;
  if (!options.trace_path.empty()) {
    const auto num_steps =
        static_cast<std::uint64_t>(options.num_warm_up) + static_cast<std::uint64_t>(options.num_steps);
    file.emplace(files, options.trace_path, TraceLimits{.num_steps = num_steps});
  }
  LaneTrace trace(clock, LaneTrace::Keep::kSpans, [&](const LaneSpan& span) {
    if (file) file->add(span);
  });
  const JobMemory& memory = options.run->memory;
  const std::int64_t opened_ns = clock.now_ns();
  TrainingSession session({.model = options.model,
                           .schedule = memory.schedule,
                           .buffers = memory.buffers,
                           .device_bytes = memory.device_bytes,
                           .host_bytes = memory.host_bytes,
                           .device = memory.device,
                           .store_directories = options.directories,
                           .num_threads = memory.num_threads,
                           .momentum = options.momentum,
                           .trace = &trace});
  const std::int64_t taken_ns = clock.now_ns();
  session.begin(*options.weights, "step 0", progress);
  RandomTokens tokens(options.run->plan.request);
  std::vector<std::int64_t> ends_ns;  // of each step, the first entry where they begin
  ends_ns.push_back(clock.now_ns());
  if (file) file->begin(ends_ns.front());
  const int total = options.num_warm_up + options.num_steps;
  for (int step = 1; step <= total; ++step) {
    if (progress.interrupted()) throw Cancelled("interrupted; nothing was measured");
    session.step(tokens.step(), {.adam = {.learning_rate = 1e-5, .step = step}, .max_grad_norm = 1},
                 "step " + std::to_string(step));
    ends_ns.push_back(clock.now_ns());
    if (file) file->end_step(static_cast<std::uint64_t>(step), ends_ns.back());
    progress.report({.what = "bench step",
                     .done = static_cast<std::uint64_t>(step),
                     .total = static_cast<std::uint64_t>(total),
                     .unit = ProgressUnit::kSteps});
    if (step == options.checkpoint_step) {
      session.commit("step " + std::to_string(step));
      session.keep_snapshot("checkpoint");
    }
  }
  session.wait();
  if (options.checkpoint_step > 0) session.commit("step " + std::to_string(total));
  StepBenchResult result;
  const SessionUse use = session.use();
  result.device_peak_bytes = use.device.peak_bytes;
  result.host_peak_bytes = use.host.peak_bytes;
  result.drives_peak_bytes = use.drives.peak_bytes;
  result.peak_rss_bytes = peak_rss_bytes();
  const std::vector<LaneSpan> spans = trace.spans();
  for (auto idx = static_cast<std::size_t>(options.num_warm_up); idx + 1 < ends_ns.size(); ++idx) {
    StepBenchResult::Step step{.seconds = static_cast<double>(ends_ns[idx + 1] - ends_ns[idx]) * 1e-9,
                               .busy_s = busy_between(spans, ends_ns[idx], ends_ns[idx + 1])};
    step.bound_s = *std::max_element(step.busy_s.begin(), step.busy_s.end());
    count_drive_bytes(spans, ends_ns[idx], ends_ns[idx + 1], step);
    result.steps.push_back(step);
  }
  Machine machine = options.run->plan.request.machine;
  if (options.measures_drives && result.steps.back().read_bytes + result.steps.back().written_bytes > 0) {
    measure_drives(options.directories, result.steps.back(), progress, machine.drives);
  }
  for (StepBenchResult::Step& step : result.steps) step.drives_s = drives_seconds(step, machine);
  result.drives = std::move(machine.drives);
  summarize(result);
  result.memory_s = static_cast<double>(taken_ns - opened_ns) * 1e-9;
  result.load_s = static_cast<double>(ends_ns.front() - taken_ns) * 1e-9;
  return result;
}

}  // namespace sluice
