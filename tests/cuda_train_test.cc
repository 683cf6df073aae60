// SPDX-License-Identifier: Apache-2.0
// Training on a card: it follows the CPU's losses, wherever state lives it has the same bits, and it has them every
// time. Needs a card; skips where there is none, saying why.
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"
#include "device/choose_device.h"
#include "model/adapter_sites.h"
#include "plan/step_memory.h"
#include "train/handmade_run.h"
#include "train/training_session.h"

namespace sluice {
namespace {

constexpr std::int64_t kNumSteps = 20;

struct Outcome {
  std::vector<double> losses;
  std::vector<std::byte> trained;

  bool operator==(const Outcome&) const = default;
};

struct Way {
  std::string name;
  Schedule schedule;
  SliceHomes homes;
  std::optional<SliceHomes> every_third = std::nullopt;  // of the slices, instead
  DirectWish direct_storage = DirectWish::kOff;
};

std::vector<Way> ways() {
  return {{"all on the device", {.wave = 4, .is_one_wave = true}, kOnDevice},
          {"host", {.wave = 2, .group = 2, .weight_places = 3, .boundaries = Home::kHost}, kOnHost},
          {"drives", {.wave = 3, .boundaries = Home::kNvme}, kOnDrives},
          {"host and drives", {.wave = 4, .boundaries = Home::kHost}, {Home::kHost, Home::kNvme, Home::kHost}},
          {"weights on the device", {.wave = 1}, {Home::kDevice, Home::kHost, Home::kHost}},
          {"gradients on the device", {.wave = 1}, {Home::kHost, Home::kNvme, Home::kDevice}},
          {"some in host memory", {.wave = 4, .is_one_wave = true, .boundaries = Home::kHost}, kOnHost, kOnDevice},
          {"drives, past the host", {.wave = 2, .boundaries = Home::kNvme}, kOnDrives, std::nullopt, DirectWish::kOn},
          {"some on the drives", {.wave = 2, .group = 2, .weight_places = 3}, kOnDrives, kOnDevice}};
}

class CudaTrain : public testing::Test {
 protected:
  void SetUp() override {
    try {
      card_ = choose_device(DeviceWish::kCuda);
    } catch (const InvalidInput& failure) {
      GTEST_SKIP() << failure.what();
    }
    make_random_model(folder_.path(), deep_config(4), {.spread = 0.1});
    const auto device = make_device(card_, {.arena_bytes = 16 * kMiB, .scratch_bytes = kMiB});
    DirectStorageFinding found = device->open_direct_storage(DirectWay::kAnyhow);
    try {
      if (found.storage) found.storage->open(folder_.path() + "/config.json");
    } catch (const DeviceError& error) {  // the one refusal that is the machine's, not ours
      if (std::string_view(error.what()).find("udev has no entry") == std::string_view::npos) throw;
      found = {nullptr, error.what()};
    }
    can_pass_host_ = found.storage != nullptr;
    if (!can_pass_host_) fmt::print("SKIPPED: reads past the host: {}\n", found.why_not);
  }

  std::vector<Way> ways_here() const {
    std::vector<Way> all = ways();
    std::erase_if(all, [&](const Way& way) { return way.direct_storage == DirectWish::kOn && !can_pass_host_; });
    return all;
  }

  Outcome train(const ModelDescription& model, const OpenedModel& opened, const DeviceChoice& device, Way way,
                DType dtype) {
    const ScratchDirectory directory;
    way.schedule.dtype = dtype;
    way.schedule.batch_tokens = kRunBatchTokens;
    way.schedule.homes = homes_of(model.arch, way.homes, way.every_third);
    way.schedule.device = device.kind();
    const SessionOptions options{.model = &model,
                                 .schedule = way.schedule,
                                 .buffers = {.chunk_bytes = 64 * kKiB,
                                             .staging_bytes = 2 * kMiB,
                                             .optimizer_windows = 3,
                                             .scratch_bytes = device.cuda ? 64 * kMiB : 0},
                                 .device_bytes = 256 * kMiB,
                                 .host_bytes = 256 * kMiB,
                                 .device = device,
                                 .store_directories = {directory.path()},
                                 .num_threads = 2,
                                 .direct_storage = way.direct_storage};
    TrainingSession session(options);
    const StepMemory planned = step_memory(model.arch, way.schedule, options.buffers);
    const std::uint64_t batches = static_cast<std::uint64_t>(way.schedule.wave) *
                                  round_up(Batch::size_bytes(model.arch, kRunBatchTokens), Device::kAlignment);
    EXPECT_EQ(session.device().arena_bytes() - session.device().free_bytes(), planned.device.total() - batches);
    EXPECT_EQ(session.host().used_bytes(), planned.host.total());
    session.begin(opened.slices(), "0", {});
    Outcome outcome;
    RandomSteps data(model.arch);
    for (std::int64_t step = 1; step <= kNumSteps; ++step) {
      // The same documents over and over, so that there is something to learn.
      const SessionStep done =
          session.step(data.step(step % 4), {.adam = {.learning_rate = 3e-3, .step = step}, .max_grad_norm = 1},
                       std::to_string(step));
      outcome.losses.push_back(done.result.loss);
    }
    session.commit(std::to_string(kNumSteps) + ", committed");
    for (std::size_t slice_idx = 0; slice_idx < num_slices(model.arch); ++slice_idx) {
      const std::span<const std::byte> trained = session.weights(slice_idx);
      outcome.trained.insert(outcome.trained.end(), trained.begin(), trained.end());
    }
    return outcome;
  }

  static double distance(const Outcome& a, const Outcome& b) {
    double most = 0;
    for (std::size_t idx = 0; idx < a.losses.size(); ++idx) {
      most = std::max(most, std::abs(a.losses[idx] - b.losses[idx]));
    }
    return most;
  }

  ScratchDirectory folder_;
  DeviceChoice card_;
  bool can_pass_host_ = false;
};

TEST_F(CudaTrain, FollowsTheCpuWithinTheErrorOfItsDtype) {
  const OpenedModel opened(folder_.path());
  const Way way = ways().front();
  const Outcome exact = train(opened.model(), opened, {}, way, DType::kF32);
  const Outcome rounded = train(opened.model(), opened, {}, way, DType::kBF16);
  const Outcome card_exact = train(opened.model(), opened, card_, way, DType::kF32);
  const Outcome card_rounded = train(opened.model(), opened, card_, way, DType::kBF16);
  EXPECT_LT(exact.losses.back(), exact.losses.front() - 0.1);
  fmt::print(
      "loss {:.4f} to {:.4f}; most from f32 on the CPU: bf16 on the CPU {:.5f}, f32 on the card {:.7f}, bf16 on "
      "the card {:.5f}\n",
      exact.losses.front(), exact.losses.back(), distance(rounded, exact), distance(card_exact, exact),
      distance(card_rounded, exact));
  EXPECT_LE(distance(card_exact, exact), 1e-3);
  EXPECT_LE(distance(card_rounded, exact), 2 * distance(rounded, exact) + 5e-3);
}

TEST_F(CudaTrain, HasTheSameBitsWhereverStateLivesAndEveryTime) {
  const OpenedModel opened(folder_.path());
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Outcome expected = train(opened.model(), opened, card_, ways().front(), dtype);
    for (const Way& way : ways_here()) {
      const Outcome found = train(opened.model(), opened, card_, way, dtype);
      EXPECT_EQ(found.losses, expected.losses) << way.name;
      EXPECT_TRUE(found.trained == expected.trained) << way.name;
    }
  }
}

// As under Windows' subsystem for Linux: copies go through slots.
TEST_F(CudaTrain, HasTheSameBitsWhereLittleHostMemoryIsPinned) {
  const OpenedModel opened(folder_.path());
  DeviceChoice pins_little = card_;
  pins_little.card.pinnable_bytes = 0;
  const Outcome expected = train(opened.model(), opened, card_, ways().front(), DType::kBF16);
  for (const Way& way : ways_here()) {
    EXPECT_TRUE(train(opened.model(), opened, pins_little, way, DType::kBF16) == expected) << way.name;
  }
}

TEST_F(CudaTrain, TrainsAdaptersToTheSameBits) {
  const OpenedModel opened(folder_.path());
  ModelDescription model = opened.model();
  model.arch.adapter = make_adapter(model, {.rank = 5, .alpha = 20, .dropout = 0.25, .targets = {}});
  for (const BaseFormat base : {BaseFormat::kPlain, BaseFormat::kNf4}) {
    model.arch.adapter.base = base;
    const Outcome expected = train(model, opened, card_, ways().front(), DType::kBF16);
    EXPECT_NE(expected.losses.front(), expected.losses.back());
    for (const Way& way : ways_here())
      EXPECT_TRUE(train(model, opened, card_, way, DType::kBF16) == expected) << way.name;
    const Outcome cpu = train(model, opened, {}, ways().front(), DType::kBF16);
    fmt::print("adapters, most from the CPU: {:.5f}\n", distance(expected, cpu));
    EXPECT_LE(distance(expected, cpu), 0.02);
  }
}

}  // namespace
}  // namespace sluice
