// SPDX-License-Identifier: Apache-2.0
// A run that is killed at any moment and resumed ends as one that never was.
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/units.h"
#include "train/handmade_run.h"
#include "train/killed_process.h"
#include "train/training_session.h"

namespace sluice {
namespace {

constexpr std::int64_t kNumSteps = 60;

struct Way {
  SliceHomes homes;
  OptimizerState optimizer = OptimizerState::kAdamWF32;
  int num_kills = 20;
};

SessionOptions options_for(const OpenedModel& opened, const std::string& directory, const Way& way) {
  SessionOptions options{
      .model = &opened.model(),
      .schedule = {.optimizer = way.optimizer, .wave = 2, .batch_tokens = kRunBatchTokens, .boundaries = Home::kHost},
      .buffers = {.chunk_bytes = 64 * kKiB, .staging_bytes = 2 * kMiB, .optimizer_windows = 3},
      .device_bytes = 16 * kMiB,
      .host_bytes = 128 * kMiB,
      .store_directories = {directory},
      .num_threads = 2};
  options.schedule.homes.assign(num_slices(opened.arch()), way.homes);
  return options;
}

// Runs on to the end, from wherever the store is, and tells of every step. Every seventh step is saved where not every
// one is.
void train(const std::string& folder, const std::string& directory, const Way& way, StepTeller teller) {
  const OpenedModel opened(folder);
  const SessionOptions options = options_for(opened, directory, way);
  TrainingSession session(options);
  const std::optional<std::string> note = session.committed_note();
  if (note) {
    session.resume(opened.slices());
  } else {
    session.begin(opened.slices(), "0", {});
  }
  const std::int64_t committed = std::stoll(note.value_or("0"));
  teller.began(committed);
  RandomSteps data(opened.arch());
  for (std::int64_t step = committed + 1; step <= kNumSteps; ++step) {
    session.step(data.step(step),
                 {.adam = {.learning_rate = 3e-3, .weight_decay = 0.1, .step = step}, .max_grad_norm = 0.5},
                 std::to_string(step));
    teller.stepped();
    if (step % 7 == 0 || step == kNumSteps) session.commit(std::to_string(step));
  }
  session.wait();
}

std::vector<std::byte> final_weights(const std::string& folder, const std::string& directory, const Way& way) {
  const OpenedModel opened(folder);
  const SessionOptions options = options_for(opened, directory, way);
  TrainingSession session(options);
  EXPECT_EQ(session.committed_note(), std::to_string(kNumSteps));
  session.resume(opened.slices());
  std::vector<std::byte> all;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(opened.arch()); ++slice_idx) {
    const auto slice = session.weights(slice_idx);
    all.insert(all.end(), slice.begin(), slice.end());
  }
  return all;
}

class Resume : public testing::Test {
 protected:
  Resume() { make_random_model(folder_.path(), deep_config(4), {.spread = 0.1}); }

  void expect_killed_ends_as_whole(const Way& way) {
    // Where every step is committed, each of them is progress.
    const std::uint64_t max_steps = way.homes.optimizer == Home::kNvme ? 4 : 10;
    const auto train_in = [&](const std::string& directory) {
      return [&, directory](int, StepTeller teller) { train(folder_.path(), directory, way, teller); };
    };
    const ScratchDirectory whole;
    ASSERT_EQ(kill_and_resume(0, max_steps, train_in(whole.path())).num_killed, 0);
    const ScratchDirectory killed_run;
    const Killed killed = kill_and_resume(way.num_kills, max_steps, train_in(killed_run.path()));
    EXPECT_GE(killed.num_killed, way.num_kills / 2);
    EXPECT_GE(killed.num_resumed, way.num_kills / 4);
    const std::vector<std::byte> expected = final_weights(folder_.path(), whole.path(), way);
    EXPECT_TRUE(final_weights(folder_.path(), killed_run.path(), way) == expected);
  }

  ScratchDirectory folder_;
};

TEST_F(Resume, AfterTwentyKillsTheWeightsAreThoseOfARunThatNeverWasKilled) { expect_killed_ends_as_whole({kOnDrives}); }

TEST_F(Resume, AlsoWhereStateLivesInMemoryAndIsSavedNowAndThen) { expect_killed_ends_as_whole({kOnHost}); }

// Random bits are a function of the step, which a resumed run must not count anew.
TEST_F(Resume, AlsoWhereMomentsAreRoundedStochastically) {
  expect_killed_ends_as_whole({kOnDrives, OptimizerState::kAdamWBF16, 6});
}

TEST_F(Resume, AlsoWithMomentsOf8BitsInMemory) {
  expect_killed_ends_as_whole({kOnHost, OptimizerState::kAdamW8Bit, 6});
}

}  // namespace
}  // namespace sluice
