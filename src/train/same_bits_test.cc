// SPDX-License-Identifier: Apache-2.0
// Placement never changes numbers: one run under every kind of schedule, held to the same bits.
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/page_memory.h"
#include "base/sanitizer.h"
#include "base/units.h"
#include "model/adapter_sites.h"
#include "plan/step_memory.h"
#include "tier/plain_storage.h"
#include "tier/slice_store.h"
#include "train/handmade_run.h"
#include "train/optimizer_lane.h"
#include "train/step_runner.h"
#include "train/training_state.h"

namespace sluice {
namespace {

constexpr std::uint64_t kArenaBytes = 256 * kMiB;
constexpr std::uint64_t kHostBytes = 512 * kMiB;

struct Way {
  std::string name;
  Schedule schedule;
  SliceHomes homes;
  std::optional<SliceHomes> every_third = std::nullopt;  // of the slices, instead
  std::size_t num_threads = 2;
  bool is_past_host = false;  // from the drives
};

// Memory that the host must not touch but through streams, by name alone: updates go as on a card.
class CardOfTheCpu : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  DeviceKind kind() const override { return DeviceKind::kCuda; }
};

struct Outcome {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<std::byte> weights;
};

class SameBits : public testing::Test {
 protected:
  Outcome run(const OpenedModel& opened, Architecture arch, Way way, std::int64_t num_steps) {
    way.schedule.batch_tokens = kRunBatchTokens;
    way.schedule.homes = homes_of(arch, way.homes, way.every_third);
    way.schedule.stored_layers = std::min(way.schedule.stored_layers, arch.num_layers());
    way.schedule.kept_attention = std::min(way.schedule.kept_attention, arch.num_layers());
    const ScratchDirectory directory;
    PosixFileSystem files;
    ThreadsEngine engine(4);
    const StoreHome home{.files = files, .engine = engine, .directories = {directory.path()}, .growth_bytes = kMiB};
    const auto store = SliceStore::create(home, {.chunk_bytes = 64 * kKiB});
    CpuDevice cpu(kArenaBytes, way.num_threads);
    CardOfTheCpu card(kArenaBytes, way.num_threads);
    Device& device = way.schedule.device == DeviceKind::kCpu ? cpu : static_cast<Device&>(card);
    Budget host("host memory", kHostBytes);
    StagingRing ring(device, engine, host, {.slot_bytes = 128 * kKiB, .num_slots = 4});
    std::atomic<std::uint64_t> read_bytes{0};
    DirectReader direct(std::make_unique<PlainStorage>(read_bytes));
    RunKeeper keeper({.device = &device,
                      .host = &host,
                      .store = store.get(),
                      .ring = &ring,
                      .direct = way.is_past_host ? &direct : nullptr});
    const WeightKeeping state{.keeper = &keeper, .store = store.get(), .arch = &arch, .schedule = &way.schedule};
    const std::uint64_t before_bytes = device.free_bytes();
    const std::uint64_t before_host_bytes = host.used_bytes();
    add_weights(state);
    fill_weights(state, opened.slices(), nullptr);
    StepRunner runner(device, arch, keeper, way.schedule, nullptr);
    OptimizerLane optimizer({.arch = &arch,
                             .keeper = &keeper,
                             .store = store.get(),
                             .host = &host,
                             .schedule = &way.schedule,
                             .num_threads = way.num_threads,
                             .num_windows = 3,
                             .momentum = way.schedule.optimizer == OptimizerState::kSgdMomentum ? 0.9 : 0});
    const StepMemory planned =
        step_memory(arch, way.schedule, {.chunk_bytes = store->chunk_bytes(), .optimizer_windows = 3});
    // Batches come and go with each wave.
    const std::uint64_t batches = static_cast<std::uint64_t>(way.schedule.wave) *
                                  round_up(Batch::size_bytes(arch, kRunBatchTokens), Device::kAlignment);
    EXPECT_EQ(before_bytes - device.free_bytes(), planned.device.total() - batches) << way.name;
    EXPECT_EQ(host.used_bytes() - before_host_bytes, planned.host.total()) << way.name;
    Outcome outcome;
    RandomSteps data(arch);
    std::vector<std::shared_future<void>> ready(num_slices(arch));
    for (std::int64_t step = 1; step <= num_steps; ++step) {
      const StepResult result = runner.run(data.step(step), ready, static_cast<std::uint64_t>(step));
      outcome.losses.push_back(result.loss);
      outcome.norms.push_back(std::sqrt(result.squared_norm));
      const double scale = std::min(1.0, 0.5 / (outcome.norms.back() + 1e-6));
      ready = optimizer.update({.learning_rate = 3e-3,
                                .beta2 = 0.95,
                                .weight_decay = 0.1,
                                .step = step,
                                .grad_scale = static_cast<float>(scale)},
                               nullptr);
    }
    optimizer.wait();
    EXPECT_EQ(read_bytes > 0, way.is_past_host) << way.name;
    const PageMemory memory(kMiB);  // drives want alignment
    for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
      const std::uint64_t bytes = trained_bytes(state, slice_idx);
      const std::span<std::byte> slice = memory.bytes().first(round_up(bytes, kBlockBytes));
      read_trained(state, slice_idx, slice);
      outcome.weights.insert(outcome.weights.end(), slice.begin(), slice.begin() + static_cast<std::ptrdiff_t>(bytes));
    }
    return outcome;
  }
};

std::vector<Way> ways() {
  return {
      {.name = "device", .schedule = {.wave = 4, .is_one_wave = true}, .homes = kOnDevice, .num_threads = 1},
      {.name = "device, 2 threads", .schedule = {.wave = 1}, .homes = kOnDevice},
      {.name = "host", .schedule = {.wave = 4, .is_one_wave = true}, .homes = kOnHost},
      {.name = "host, wave 1", .schedule = {.wave = 1}, .homes = kOnHost, .num_threads = 1},
      {.name = "host, wave 2, group 3, some layers stored",
       .schedule = {.wave = 2,
                    .group = 3,
                    .weight_places = 4,
                    .gradient_places = 4,
                    .boundaries = Home::kHost,
                    .stored_layers = 2},
       .homes = kOnHost},
      {.name = "drives", .schedule = {.wave = 4, .is_one_wave = true, .boundaries = Home::kHost}, .homes = kOnDrives},
      {.name = "drives, wave 3, boundaries too, every layer stored",
       .schedule = {.wave = 3, .boundaries = Home::kNvme, .boundary_places = 3, .stored_layers = 12},
       .homes = kOnDrives},
      {.name = "drives, past the host",
       .schedule = {.wave = 2, .weight_places = 3, .gradient_places = 3, .boundaries = Home::kNvme},
       .homes = kOnDrives,
       .is_past_host = true},
      {.name = "host, attention of some layers kept",
       .schedule = {.wave = 2, .gradient_places = 3, .boundaries = Home::kHost, .kept_attention = 5},
       .homes = kOnHost},
      {.name = "drives, wave 1, group 3",
       .schedule = {.wave = 1, .group = 3, .weight_places = 3, .gradient_places = 3, .boundaries = Home::kNvme},
       .homes = kOnDrives,
       .num_threads = 1},
      {.name = "gradients on the drives alone",
       .schedule = {.wave = 2, .gradient_places = 3},
       .homes = {Home::kHost, Home::kHost, Home::kNvme}},
      {.name = "weights in host memory alone",
       .schedule = {.wave = 1, .boundaries = Home::kNvme},
       .homes = {Home::kHost, Home::kNvme, Home::kNvme}},
      {.name = "weights on the device alone",
       .schedule = {.wave = 4, .boundaries = Home::kNvme},
       .homes = {Home::kDevice, Home::kNvme, Home::kNvme}},
      {.name = "mixed",
       .schedule = {.wave = 2, .group = 5, .weight_places = 20, .gradient_places = 6, .stored_layers = 1},
       .homes = {Home::kHost, Home::kNvme, Home::kHost}},
      {.name = "every third on the device, the others in host memory",
       .schedule = {.wave = 4, .is_one_wave = true, .boundaries = Home::kHost},
       .homes = kOnHost,
       .every_third = kOnDevice},
      {.name = "every third on the device, the others on the drives",
       .schedule = {.wave = 2, .group = 2, .weight_places = 3, .gradient_places = 3, .stored_layers = 2},
       .homes = kOnDrives,
       .every_third = kOnDevice},
  };
}

void expect_same(const Outcome& found, const Outcome& expected, const std::string& name) {
  EXPECT_EQ(found.losses, expected.losses) << name;
  EXPECT_EQ(found.norms, expected.norms) << name;
  EXPECT_TRUE(found.weights == expected.weights) << name;
}

// A sanitizer makes steps slow, and needs few to see what they touch and where threads meet.
constexpr std::int64_t kNumSteps = kIsSanitized ? 4 : 40;

TEST_F(SameBits, WhereverStateLivesAndHoweverTheStepIsCut) {
  const ScratchDirectory folder;
  make_random_model(folder.path(), deep_config(), {.spread = 0.1});
  const OpenedModel opened(folder.path());
  std::optional<Outcome> expected;
  for (const Way& way : ways()) {
    const Outcome found = run(opened, opened.arch(), way, kNumSteps);
    if (!expected) {
      expected = found;
      if (kNumSteps >= 40) {
        EXPECT_LT(found.losses.back(), found.losses.front());
      }
      EXPECT_GT(*std::max_element(found.norms.begin(), found.norms.end()), 0.5) << "clipping is at work";
      continue;
    }
    expect_same(found, *expected, way.name);
  }
}

TEST_F(SameBits, WithUpdatesAsOnACard) {
  const ScratchDirectory folder;
  make_random_model(folder.path(), deep_config(), {.spread = 0.1});
  const OpenedModel opened(folder.path());
  for (const bool has_adapter : {false, true}) {
    Architecture arch = opened.arch();
    if (has_adapter) arch.adapter = make_adapter(opened.model(), {.rank = 5, .alpha = 20, .targets = {}});
    const std::int64_t num_steps = std::min<std::int64_t>(kNumSteps, 6);
    const Outcome expected = run(opened, arch, ways().front(), num_steps);
    for (Way way : ways()) {
      way.schedule.device = DeviceKind::kCuda;
      expect_same(run(opened, arch, way, num_steps), expected, way.name);
    }
    Way way{
        .name = "gradients on the device", .schedule = {.wave = 1}, .homes = {Home::kHost, Home::kHost, Home::kDevice}};
    way.schedule.device = DeviceKind::kCuda;
    expect_same(run(opened, arch, way, num_steps), expected, way.name);
    way.homes = {Home::kDevice, Home::kHost, Home::kNvme};
    expect_same(run(opened, arch, way, num_steps), expected, "weights on the device");
  }
}

TEST_F(SameBits, WithAVocabularyInRangesAndAHeadOfItsOwn) {
  nlohmann::json config = deep_config();
  config["num_hidden_layers"] = 4;
  for (const bool tied : {false, true}) {
    config["tie_word_embeddings"] = tied;
    const ScratchDirectory tied_folder;
    make_random_model(tied_folder.path(), config, {.spread = 0.1});
    const OpenedModel opened(tied_folder.path());
    Architecture arch = opened.arch();
    const_cast<Architecture&>(opened.arch()).vocab_range_rows = 32;  // NOLINT: the checkpoint is read by its own
    arch.vocab_range_rows = 32;
    std::optional<Outcome> expected;
    for (Way way : ways()) {
      way.schedule.dtype = DType::kF32;
      const Outcome found = run(opened, arch, way, std::min<std::int64_t>(kNumSteps, 5));
      if (!expected) expected = found;
      expect_same(found, *expected, way.name);
    }
  }
}

// Large enough for places of their own, and for gradients that wait in bf16.
TEST_F(SameBits, OfLargeSlices) {
  nlohmann::json config = deep_config(6);
  config["hidden_size"] = 128;
  config["intermediate_size"] = 320;
  for (const bool tied : {false, true}) {
    config["tie_word_embeddings"] = tied;
    const ScratchDirectory folder;
    make_random_model(folder.path(), config, {.spread = 0.05});
    const OpenedModel opened(folder.path());
    ASSERT_GT(gradient_bytes(opened.arch(), block_slice(opened.arch(), 0)), kSmallSliceBytes);
    std::optional<Outcome> expected;
    for (const Way& way : ways()) {
      const Outcome found = run(opened, opened.arch(), way, std::min<std::int64_t>(kNumSteps, 3));
      if (!expected) expected = found;
      expect_same(found, *expected, way.name);
    }
  }
}

TEST_F(SameBits, WithEveryFormOfOptimizerState) {
  const ScratchDirectory folder;
  make_random_model(folder.path(), deep_config(3), {.spread = 0.1});
  const OpenedModel opened(folder.path());
  std::vector<Outcome> all;
  for (const OptimizerState optimizer : kOptimizerStates) {
    std::optional<Outcome> expected;
    for (Way way : ways()) {
      // In memory, on the drives, and some of each.
      if (way.name != "device" && way.name != "host, wave 1" && way.name != "drives, wave 1, group 3" &&
          way.name != "mixed") {
        continue;
      }
      way.schedule.group = std::min<std::int64_t>(way.schedule.group, 3);
      way.schedule.optimizer = optimizer;
      const Outcome found = run(opened, opened.arch(), way, std::min<std::int64_t>(kNumSteps, 6));
      if (!expected) expected = found;
      expect_same(found, *expected, std::string(name(optimizer)) + ", " + way.name);
    }
    for (const Outcome& other : all) EXPECT_FALSE(other.weights == expected->weights) << name(optimizer);
    all.push_back(*std::move(expected));
  }
}

// Weights live where the way says, and so do gradients and moments of adapters.
TEST_F(SameBits, WithAdaptersThatLeaveOutPartOfTheirInput) {
  const ScratchDirectory folder;
  make_random_model(folder.path(), deep_config(), {.spread = 0.1});
  const OpenedModel opened(folder.path());
  Architecture arch = opened.arch();
  arch.adapter = make_adapter(opened.model(), {.rank = 5, .alpha = 20, .dropout = 0.25, .targets = {}});
  std::optional<Outcome> expected;
  for (const Way& way : ways()) {
    const Outcome found = run(opened, arch, way, std::min<std::int64_t>(kNumSteps, 10));
    if (!expected) {
      expected = found;
      EXPECT_NE(found.losses.front(), found.losses.back());
    }
    expect_same(found, *expected, way.name);
  }
}

}  // namespace
}  // namespace sluice
