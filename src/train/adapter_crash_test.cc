// SPDX-License-Identifier: Apache-2.0
// A run with adapters that is killed at any moment and resumed, each time with its state elsewhere, ends as one that
// never was.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/units.h"
#include "model/adapter_sites.h"
#include "train/handmade_run.h"
#include "train/killed_process.h"
#include "train/training_session.h"

namespace sluice {
namespace {

constexpr std::int64_t kAdapterSteps = 60;
constexpr std::array kHomes = {kOnDrives, kOnHost, SliceHomes{Home::kNvme, Home::kHost, Home::kDevice},
                               SliceHomes{Home::kDevice, Home::kNvme, Home::kHost}};

ModelDescription adapted(const OpenedModel& opened) {
  ModelDescription model = opened.model();
  model.arch.adapter = make_adapter(model, {.rank = 4, .alpha = 8, .dropout = 0.1, .targets = {}});
  return model;
}

SessionOptions options_for(const ModelDescription& model, const std::string& directory, SliceHomes homes) {
  SessionOptions options{.model = &model,
                         .schedule = {.wave = 2, .batch_tokens = kRunBatchTokens, .boundaries = Home::kHost},
                         .buffers = {.chunk_bytes = 64 * kKiB, .staging_bytes = 2 * kMiB, .optimizer_windows = 3},
                         .device_bytes = 16 * kMiB,
                         .host_bytes = 128 * kMiB,
                         .store_directories = {directory},
                         .num_threads = 2,
                         .seed = 9};
  options.schedule.homes.assign(num_slices(model.arch), homes);
  return options;
}

// Runs on to the end, from wherever the store is. Every fourth step is saved.
void train(const std::string& folder, const std::string& directory, SliceHomes homes, StepTeller teller) {
  const OpenedModel opened(folder);
  const ModelDescription model = adapted(opened);
  TrainingSession session(options_for(model, directory, homes));
  const std::optional<std::string> note = session.committed_note();
  if (note) {
    session.resume(opened.slices());
  } else {
    session.begin(opened.slices(), "0", {});
  }
  const std::int64_t committed = std::stoll(note.value_or("0"));
  teller.began(committed);
  RandomSteps data(model.arch);
  for (std::int64_t step = committed + 1; step <= kAdapterSteps; ++step) {
    session.step(data.step(step),
                 {.adam = {.learning_rate = 3e-3, .weight_decay = 0.1, .step = step}, .max_grad_norm = 0.5},
                 std::to_string(step));
    teller.stepped();
    if (step % 4 == 0) session.commit(std::to_string(step));
  }
  session.wait();
}

std::vector<std::byte> final_adapters(const std::string& folder, const std::string& directory) {
  const OpenedModel opened(folder);
  const ModelDescription model = adapted(opened);
  TrainingSession session(options_for(model, directory, kOnHost));
  EXPECT_EQ(session.committed_note(), std::to_string(kAdapterSteps));
  session.resume(opened.slices());
  std::vector<std::byte> all;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(model.arch); ++slice_idx) {
    const auto slice = session.weights(slice_idx);
    all.insert(all.end(), slice.begin(), slice.end());
  }
  return all;
}

TEST(AdapterResume, AfterKillsTheAdaptersAreThoseOfARunThatNeverWasKilled) {
  const ScratchDirectory folder;
  make_random_model(folder.path(), deep_config(4), {.spread = 0.1});
  const auto train_in = [&](const std::string& directory) {
    return [&, directory](int num_killed, StepTeller teller) {
      train(folder.path(), directory, kHomes[static_cast<std::size_t>(num_killed) % kHomes.size()], teller);
    };
  };
  constexpr std::uint64_t kMaxSteps = 7;  // every fourth is committed
  const ScratchDirectory whole;
  ASSERT_EQ(kill_and_resume(0, kMaxSteps, train_in(whole.path())).num_killed, 0);
  const ScratchDirectory killed_run;
  const Killed killed = kill_and_resume(10, kMaxSteps, train_in(killed_run.path()));
  EXPECT_GE(killed.num_killed, 5);
  EXPECT_GE(killed.num_resumed, 3);
  const std::vector<std::byte> expected = final_adapters(folder.path(), whole.path());
  EXPECT_FALSE(expected.empty());
  EXPECT_TRUE(final_adapters(folder.path(), killed_run.path()) == expected);
}

}  // namespace
}  // namespace sluice
