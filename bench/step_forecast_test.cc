// SPDX-License-Identifier: Apache-2.0
// The plan's simulator against the trainer: under every kind of schedule, what the trainer's lanes were seen to move in
// a step is what the forecast says they move.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/sanitizer.h"
#include "model/adapter_sites.h"
#include "model/handmade_model.h"
#include "plan/step_memory.h"
#include "plan/step_simulator.h"
#include "tier/slice_store.h"
#include "train/optimizer_lane.h"
#include "train/step_runner.h"
#include "train/training_state.h"

namespace sluice {
namespace {

constexpr std::int64_t kTokens = 32;
constexpr std::int64_t kMicroBatches = 5;
constexpr std::uint64_t kChunkBytes = 64 * kKiB;
constexpr int kSteps = kIsSanitized ? 1 : 3;

struct Way {
  std::string name;
  Schedule schedule;
  SliceHomes homes;
};

// Bytes of each lane in a step; of the optimizer, elements.
using LaneBytes = std::array<double, kNumLanes>;

constexpr std::array kComparedLanes{Lane::kNvmeToHost, Lane::kHostToDevice, Lane::kDeviceToHost, Lane::kCpuOptimizer,
                                    Lane::kHostToNvme};

class StepForecastTest : public testing::Test {
 protected:
  static LaneBytes train(const OpenedModel& opened, const Architecture& arch, const Schedule& schedule) {
    const ScratchDirectory directory;
    PosixFileSystem files;
    ThreadsEngine engine(2);
    const StoreHome home{.files = files, .engine = engine, .directories = {directory.path()}, .growth_bytes = kMiB};
    const auto store = SliceStore::create(home, {.chunk_bytes = kChunkBytes});
    CpuDevice device(512 * kMiB, 1);
    Budget host("host memory", kGiB);
    StagingRing ring(device, engine, host, {.slot_bytes = 4 * kChunkBytes, .num_slots = 4});
    const SteadyClock clock;
    LaneTrace trace(clock);
    RunKeeper keeper({.device = &device, .host = &host, .store = store.get(), .ring = &ring, .trace = &trace});
    const WeightKeeping state{.keeper = &keeper, .store = store.get(), .arch = &arch, .schedule = &schedule};
    add_weights(state);
    fill_weights(state, opened.slices(), nullptr);
    std::size_t num_before = 0;
    {
      StepRunner runner(device, arch, keeper, schedule, &trace);
      OptimizerLane optimizer({.arch = &arch,
                               .keeper = &keeper,
                               .store = store.get(),
                               .host = &host,
                               .schedule = &schedule,
                               .num_windows = 3,
                               .trace = &trace});
      std::vector<std::int32_t> ids = random_ids(arch, kTokens, 1);
      const PackedDocuments batch{{.ids = ids, .labels = ids}};
      const std::vector<PackedDocuments> micro_batches(kMicroBatches, batch);
      std::vector<std::shared_future<void>> ready(num_slices(arch));
      // The first has no optimizer state to read.
      for (int step = 0; step <= kSteps; ++step) {
        runner.run(micro_batches, ready);
        ready = optimizer.update({.step = step + 1}, nullptr);
        if (step > 0) continue;
        optimizer.wait();
        num_before = trace.spans().size();
      }
      optimizer.wait();
    }
    LaneBytes bytes{};
    const std::vector<LaneSpan> spans = trace.spans();
    for (std::size_t idx = num_before; idx < spans.size(); ++idx) {
      bytes[static_cast<std::size_t>(spans[idx].lane)] += static_cast<double>(spans[idx].size_bytes) / kSteps;
    }
    return bytes;
  }

  static void expect_as_said(const OpenedModel& opened, const Architecture& arch);

  // A byte takes a second, and so does an element of the optimizer.
  static LaneBytes forecast(const Architecture& arch, const Schedule& schedule) {
    Machine machine{.name = "a byte a second"};
    machine.device = {
        .kind = Processor::kCpu, .flops_per_s = {1, 1}, .attention_flops_per_s = {1, 1}, .memory_bytes_per_s = 1};
    machine.host = {.num_cores = 1, .optimizer_bytes_per_s = update_bytes_per_element(OptimizerState::kAdamWF32)};
    machine.links = {1, 1};
    machine.drives = {{.name = "a drive",
                       .size_bytes = kTiB,
                       .read_bytes_per_s = 1,
                       .write_bytes_per_s = 1,
                       .endurance_bytes = std::nullopt}};
    const StepShape shape{
        .dtype = schedule.dtype, .batch_tokens = kTokens, .sequence_len = kTokens, .num_micro_batches = kMicroBatches};
    return StepSimulator(arch, machine, shape, kChunkBytes).run(schedule).load.busy_s;
  }
};

constexpr SliceHomes kOnHost{Home::kHost, Home::kHost, Home::kHost};
constexpr SliceHomes kOnDrives{Home::kNvme, Home::kNvme, Home::kNvme};

std::vector<Way> ways() {
  std::vector<Way> all{
      {"device", {.wave = 5}, {Home::kDevice, Home::kDevice, Home::kDevice}},
      {"host, one wave", {.wave = 5}, kOnHost},
      {"host, wave 2", {.wave = 2, .weight_places = 3}, kOnHost},
      {"host, wave 2, group 3",
       {.wave = 2, .group = 3, .weight_places = 4, .gradient_places = 4, .boundaries = Home::kHost},
       kOnHost},
      {"host, wave 1, places for most", {.wave = 1, .weight_places = 6}, kOnHost},
      {"drives", {.wave = 5, .boundaries = Home::kHost}, kOnDrives},
      {"drives, boundaries too", {.wave = 3, .boundaries = Home::kNvme, .boundary_places = 3}, kOnDrives},
      {"mixed",
       {.wave = 2, .group = 2, .weight_places = 5, .gradient_places = 3},
       {Home::kHost, Home::kNvme, Home::kDevice}},
  };
  if (kIsSanitized) return {all.back()};
  return all;
}

void StepForecastTest::expect_as_said(const OpenedModel& opened, const Architecture& arch) {
  for (Way way : ways()) {
    way.schedule.batch_tokens = kTokens;
    way.schedule.homes.assign(num_slices(arch), way.homes);
    const LaneBytes seen = train(opened, arch, way.schedule);
    const LaneBytes said = forecast(arch, way.schedule);
    for (const Lane lane : kComparedLanes) {
      const auto at = static_cast<std::size_t>(lane);
      // Drives move whole blocks.
      const bool is_drive = lane == Lane::kNvmeToHost || lane == Lane::kHostToNvme;
      EXPECT_NEAR(seen[at], said[at], is_drive ? 0.002 * said[at] + 1 : 1.0) << way.name << ", lane " << at;
    }
  }
}

nlohmann::json wide_config(bool tied) {
  return {{"model_type", "llama"},  {"hidden_size", 256},          {"intermediate_size", 680},
          {"num_hidden_layers", 5}, {"num_attention_heads", 4},    {"num_key_value_heads", 2},
          {"vocab_size", 2000},     {"tie_word_embeddings", tied}, {"max_position_embeddings", 512}};
}

TEST_F(StepForecastTest, LanesMoveWhatTheForecastSays) {
  for (const bool tied : {false, true}) {
    if (kIsSanitized && !tied) continue;
    const ScratchDirectory folder;
    make_random_model(folder.path(), wide_config(tied), {});
    const OpenedModel opened(folder.path());
    Architecture arch = opened.arch();
    for (const std::int64_t rows : {32768, 700}) {
      const_cast<Architecture&>(opened.arch()).vocab_range_rows = rows;  // NOLINT: the checkpoint is read by its own
      arch.vocab_range_rows = rows;
      SCOPED_TRACE(fmt::format("{}, {} rows", tied ? "tied" : "not tied", rows));
      expect_as_said(opened, arch);
    }
  }
}

TEST_F(StepForecastTest, AlsoBesideAdaptersOnAPlainOrPackedBase) {
  const ScratchDirectory folder;
  make_random_model(folder.path(), wide_config(true), {});
  const OpenedModel opened(folder.path());
  Architecture arch = opened.arch();
  for (const BaseFormat base : {BaseFormat::kPlain, BaseFormat::kNf4}) {
    arch.adapter = make_adapter(opened.model(), {.rank = 32, .base = base, .targets = {}});
    SCOPED_TRACE(base == BaseFormat::kPlain ? "plain" : "packed");
    expect_as_said(opened, arch);
  }
}

}  // namespace
}  // namespace sluice
