// SPDX-License-Identifier: Apache-2.0
// A trace of real steps, read back as Perfetto does, holds the drawings above OptimizerLane and StepRunner to their
// word.
#include "train/lane_trace_file.h"

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "tier/slice_store.h"
#include "train/handmade_run.h"
#include "train/optimizer_lane.h"
#include "train/state_keys.h"
#include "train/training_state.h"

namespace sluice {
namespace {

struct Drawn {
  std::string name;
  double begin_us = 0;
  double end_us = 0;
  nlohmann::json arguments;
};
using Threads = std::map<std::string, std::vector<Drawn>>;

Threads read_trace(const std::string& path) {
  std::ifstream file(path);
  const nlohmann::json events = nlohmann::json::parse(file);
  std::map<int, std::string> names;
  Threads threads;
  for (const nlohmann::json& event : events) {
    if (event["ph"] == "M" && event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
    if (event["ph"] != "X") continue;
    const double begin_us = event["ts"];
    threads[names.at(event["tid"])].push_back({.name = event["name"],
                                               .begin_us = begin_us,
                                               .end_us = begin_us + event["dur"].get<double>(),
                                               .arguments = event.value("args", nlohmann::json::object())});
  }
  return threads;
}

// Of times that were written with three digits.
constexpr double kRoundingUs = 0.002;

class TracedRun : public testing::Test {
 protected:
  // Some steps with everything on the drives, traced into a file.
  Threads run(std::int64_t num_steps, const TraceLimits& limits) {
    const ScratchDirectory folder;
    make_random_model(folder.path(), deep_config(4), {.spread = 0.1});
    const OpenedModel opened(folder.path());
    arch_ = opened.arch();
    Schedule schedule{.wave = 2, .batch_tokens = kRunBatchTokens, .weight_places = 3};
    schedule.homes.assign(num_slices(arch_), kOnDrives);
    const ScratchDirectory directory;
    PosixFileSystem files;
    ThreadsEngine engine(4);
    const StoreHome home{.files = files, .engine = engine, .directories = {directory.path()}, .growth_bytes = kMiB};
    const auto store = SliceStore::create(home, {.chunk_bytes = 64 * kKiB});
    const SteadyClock clock;
    LaneTraceFile file(files, folder.path("trace.json"), limits);
    file.begin(clock.now_ns());
    LaneTrace trace(clock, LaneTrace::Keep::kBusyTimes, [&](const LaneSpan& span) { file.add(span); });
    CpuDevice device(256 * kMiB, 2);
    Budget host("host memory", 512 * kMiB);
    StagingRing ring(device, engine, host, {.slot_bytes = 128 * kKiB, .num_slots = 4});
    RunKeeper keeper({.device = &device, .host = &host, .store = store.get(), .ring = &ring, .trace = &trace});
    const WeightKeeping state{.keeper = &keeper, .store = store.get(), .arch = &arch_, .schedule = &schedule};
    add_weights(state);
    fill_weights(state, opened.slices(), nullptr);
    StepRunner runner(device, arch_, keeper, schedule, &trace);
    OptimizerLane optimizer({.arch = &arch_,
                             .keeper = &keeper,
                             .store = store.get(),
                             .host = &host,
                             .schedule = &schedule,
                             .num_threads = 2,
                             .num_windows = 3,
                             .trace = &trace});
    RandomSteps data(arch_);
    std::vector<std::shared_future<void>> ready(num_slices(arch_));
    for (std::int64_t step = 1; step <= num_steps; ++step) {
      runner.run(data.step(step), ready);
      ready = optimizer.update({.step = step}, nullptr);
      file.end_step(static_cast<std::uint64_t>(step), clock.now_ns());
    }
    optimizer.wait();
    file.finish();
    return read_trace(file.path());
  }

  Architecture arch_;
};

std::vector<Drawn> named(const std::vector<Drawn>& spans, const std::string& name) {
  std::vector<Drawn> found;
  for (const Drawn& span : spans) {
    if (span.name == name) found.push_back(span);
  }
  return found;
}

TEST_F(TracedRun, ReadsComeBeforeUpdatesAndUpdatesBeforeWrites) {
  constexpr std::int64_t kSteps = 3;
  const Threads threads = run(kSteps, {});
  EXPECT_EQ(threads.at("steps").size(), std::size_t{kSteps});
  for (const auto& [thread, spans] : threads) {
    for (std::size_t idx = 1; idx < spans.size(); ++idx) {
      EXPECT_GE(spans[idx].begin_us + kRoundingUs, spans[idx - 1].end_us) << thread << ": one after another";
    }
  }
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch_); ++slice_idx) {
    const std::string slice = slice_name(arch_, slice_idx);
    // A slice of this model is one window: one update a step, whose moments are read from the second on.
    const std::vector<Drawn> updates = named(threads.at("cpu-optimizer"), slice);
    const std::vector<Drawn> reads = named(threads.at("nvme->host"), "o/" + slice);
    const std::vector<Drawn> writes = named(threads.at("host->nvme"), "o/" + slice);
    ASSERT_EQ(updates.size(), std::size_t{kSteps}) << slice;
    ASSERT_EQ(reads.size(), updates.size() - 1) << slice;
    ASSERT_EQ(writes.size(), updates.size()) << slice;
    for (std::size_t idx = 0; idx < updates.size(); ++idx) {
      EXPECT_LE(updates[idx].end_us, writes[idx].begin_us + kRoundingUs) << slice;
      if (idx == 0) continue;
      EXPECT_LE(writes[idx - 1].end_us, reads[idx - 1].begin_us + kRoundingUs) << slice;
      EXPECT_LE(reads[idx - 1].end_us, updates[idx].begin_us + kRoundingUs) << slice;
    }
  }
}

TEST_F(TracedRun, WeightsArriveBeforeTheyAreUsedAndTheNextOnesMeanwhile) {
  const Threads threads = run(2, {});
  const std::vector<Drawn>& copies = threads.at("host->device");
  const std::vector<Drawn>& computed = threads.at("compute");
  std::size_t num_ahead = 0;
  for (std::int64_t layer = 0; layer < arch_.num_layers(); ++layer) {
    const std::string slice = slice_name(arch_, block_slice(arch_, layer));
    const std::vector<Drawn> first = named(computed, slice + " forward, batch 0");
    const std::vector<Drawn> arrived = named(copies, "w/" + slice);
    ASSERT_FALSE(first.empty()) << slice;
    ASSERT_FALSE(arrived.empty()) << slice;
    EXPECT_LE(arrived.front().end_us, first.front().begin_us + kRoundingUs) << slice;
    if (layer + 1 == arch_.num_layers()) break;
    const std::string next = slice_name(arch_, block_slice(arch_, layer + 1));
    const std::vector<Drawn> last = named(computed, slice + " forward, batch 1");
    if (named(copies, "w/" + next).front().begin_us < last.front().end_us) ++num_ahead;
  }
  EXPECT_GT(num_ahead, 0U) << "a slice is on its way while the one before computes";
}

TEST_F(TracedRun, TheFileIsCompleteAfterSoManyStepsOrSpans) {
  EXPECT_EQ(run(3, {.num_steps = 2}).at("steps").size(), 2U);
  const Threads threads = run(2, {.num_spans = 50});
  std::size_t num_spans = 0;
  for (const auto& [thread, spans] : threads) num_spans += thread == "steps" ? 0 : spans.size();
  EXPECT_EQ(num_spans, 50U);
}

TEST(LaneTraceFile, BeginsWhereItIsTold) {
  const ScratchDirectory folder;
  PosixFileSystem files;
  LaneTraceFile file(files, folder.path("trace.json"), {});
  file.add({Lane::kCompute, "early", 0, 0, 1'000'000, 2'000'000});
  file.begin(5'000'000);
  file.add({Lane::kCompute, "late", 0, 0, 6'000'000, 8'000'000});
  file.end_step(1, 9'000'000);
  file.finish();
  const Threads threads = read_trace(file.path());
  ASSERT_EQ(threads.at("compute").size(), 1U);
  EXPECT_EQ(threads.at("compute")[0].name, "late");
  EXPECT_EQ(threads.at("compute")[0].begin_us, 1000);
  EXPECT_EQ(threads.at("steps").at(0).begin_us, 0);
}

}  // namespace
}  // namespace sluice
