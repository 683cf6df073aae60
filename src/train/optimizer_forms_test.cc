// SPDX-License-Identifier: Apache-2.0
// Runs with every form of optimizer state: how well they learn, what they take, and what they refuse.
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"
#include "train/handmade_run.h"
#include "train/state_keys.h"
#include "train/training_session.h"

namespace sluice {
namespace {

constexpr std::int64_t kFormSteps = 40;

class OptimizerForms : public testing::Test {
 protected:
  OptimizerForms() : opened_(made_in(folder_.path())) {}

  static std::string made_in(const std::string& folder) {
    make_random_model(folder, deep_config(3), {.spread = 0.1});
    return folder;
  }

  SessionOptions options_for(const std::string& directory, OptimizerState optimizer) const {
    SessionOptions options{.model = &opened_.model(),
                           .schedule = {.optimizer = optimizer, .wave = 4, .batch_tokens = kRunBatchTokens},
                           .buffers = {.chunk_bytes = 4 * kKiB, .staging_bytes = 2 * kMiB, .optimizer_windows = 3},
                           .device_bytes = 16 * kMiB,
                           .host_bytes = 128 * kMiB,
                           .store_directories = {directory},
                           .num_threads = 2,
                           .momentum = optimizer == OptimizerState::kSgdMomentum ? 0.9 : 0};
    options.schedule.homes.assign(num_slices(opened_.arch()), {Home::kHost, Home::kNvme, Home::kHost});
    return options;
  }

  struct Learned {
    std::vector<double> losses;      // one a step
    std::uint64_t state_bytes = 0;   // in the store
    std::uint64_t memory_bytes = 0;  // as planned: two versions
  };

  // The same two steps' documents again and again: there is something to learn.
  Learned learn(OptimizerState optimizer, double learning_rate) {
    const ScratchDirectory directory;
    const SessionOptions options = options_for(directory.path(), optimizer);
    TrainingSession session(options);
    session.begin(opened_.slices(), "0", {});
    RandomSteps data(opened_.arch());
    Learned learned;
    for (std::int64_t step = 1; step <= kFormSteps; ++step) {
      const SessionStep done = session.step(
          data.step(step % 2), {.adam = {.learning_rate = learning_rate, .step = step}, .max_grad_norm = 1}, "");
      learned.losses.push_back(done.result.loss);
    }
    session.commit("");
    for (std::size_t slice_idx = 0; slice_idx < num_slices(opened_.arch()); ++slice_idx) {
      const SliceRef state = session.store().find(optimizer_key(opened_.arch(), slice_idx));
      if (state) learned.state_bytes += state->size_bytes();
    }
    learned.memory_bytes = step_memory(opened_.arch(), options.schedule, options.buffers).drives.optimizer;
    return learned;
  }

  ScratchDirectory folder_;
  OpenedModel opened_;
};

TEST_F(OptimizerForms, ShortMomentsLearnAsWellAsF32MomentsAndTakeLess) {
  constexpr double kRate = 4e-3;
  const Learned whole = learn(OptimizerState::kAdamWF32, kRate);
  ASSERT_LT(whole.losses.back(), 0.7 * whole.losses.front());
  for (const auto& [optimizer, share] :
       {std::pair(OptimizerState::kAdamWBF16, 0.65), std::pair(OptimizerState::kAdamW8Bit, 0.5)}) {
    const Learned found = learn(optimizer, kRate);
    for (std::size_t idx = 0; idx < found.losses.size(); ++idx) {
      EXPECT_NEAR(found.losses[idx], whole.losses[idx], 0.04 * whole.losses[idx])
          << name(optimizer) << ", step " << idx;
    }
    EXPECT_LE(static_cast<double>(found.state_bytes), share * static_cast<double>(whole.state_bytes))
        << name(optimizer);
    EXPECT_EQ(found.memory_bytes, found.state_bytes) << name(optimizer);
  }
  EXPECT_EQ(whole.memory_bytes, whole.state_bytes);
}

TEST_F(OptimizerForms, SgdLearnsWithTheTrailingBitsAndItsVelocityAlone) {
  const Learned plain = learn(OptimizerState::kSgd, 0.5);
  const Learned heavy = learn(OptimizerState::kSgdMomentum, 0.1);
  EXPECT_LT(plain.losses.back(), 0.8 * plain.losses.front());
  EXPECT_LT(heavy.losses.back(), 0.8 * heavy.losses.front());
  EXPECT_EQ(heavy.state_bytes, 3 * plain.state_bytes);
}

// Where SGD has f32 weights it keeps nothing: where that would live is no matter.
TEST_F(OptimizerForms, EveryStepIsCommittedWhereMemoryHoldsNothingThatIsKept) {
  const auto commits = [&](DType dtype, Home weights) {
    const ScratchDirectory directory;
    SessionOptions options = options_for(directory.path(), OptimizerState::kSgd);
    options.schedule.dtype = dtype;
    options.schedule.homes.assign(num_slices(opened_.arch()), {weights, Home::kHost, Home::kHost});
    TrainingSession session(options);
    session.begin(opened_.slices(), "0", {});
    RandomSteps data(opened_.arch());
    session.step(data.step(1), {.adam = {.learning_rate = 0.1, .step = 1}}, "1");
    session.wait();
    return session.committed_note() == "1";
  };
  EXPECT_TRUE(commits(DType::kF32, Home::kNvme));
  EXPECT_FALSE(commits(DType::kF32, Home::kHost));
  EXPECT_FALSE(commits(DType::kBF16, Home::kNvme)) << "the bits that trail the weights are kept";
}

TEST_F(OptimizerForms, ARunDoesNotGoOnInAnotherForm) {
  const ScratchDirectory directory;
  {
    const SessionOptions options = options_for(directory.path(), OptimizerState::kAdamW8Bit);
    TrainingSession session(options);
    session.begin(opened_.slices(), "0", {});
    RandomSteps data(opened_.arch());
    session.step(data.step(1), {.adam = {.step = 1}}, "1");
    session.commit("1");
  }
  const SessionOptions options = options_for(directory.path(), OptimizerState::kAdamWF32);
  TrainingSession session(options);
  try {
    session.resume(opened_.slices());
    FAIL() << "codes are no floats";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("AdamW with f32 moments"));
  }
}

}  // namespace
}  // namespace sluice
