// SPDX-License-Identifier: Apache-2.0
// What a run finds of the one before it in the same folder.
#include "train/training_job.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/handmade_text.h"
#include "train/handmade_run.h"

namespace sluice {
namespace {

class TrainingJobs : public testing::Test {
 protected:
  TrainingJobs() {
    make_random_model(base_.path(), deep_config(1), {.spread = 0.1});
    write_handmade_model(base_.path(), "");
    std::string rows;
    for (int idx = 0; idx < 12; ++idx)
      rows += R"({"text": "what is said once more and again"})"
              "\n";
    write_text(place_.path() + "/rows.jsonl", rows);
  }

  std::string path(const std::string& name) const { return place_.path() + "/" + name; }

  TrainConfig config() const {
    TrainConfig config;
    config.base_model = base_.path();
    config.datasets = {{.path = path("rows.jsonl")}};
    config.sequence_len = static_cast<std::uint64_t>(kRunBatchTokens);
    config.max_steps = 2;
    config.save_strategy = RunStrategy::kNo;
    config.output_dir = path("run");
    return config;
  }

  static void open(TrainingJob& job) {
    JobMemory memory{.schedule = {.batch_tokens = kRunBatchTokens},
                     .buffers = {.chunk_bytes = 4 * kKiB, .staging_bytes = kMiB, .optimizer_windows = 3},
                     .device_bytes = 16 * kMiB,
                     .host_bytes = 64 * kMiB};
    memory.schedule.homes.assign(num_slices(job.model().arch), kOnHost);
    job.open(memory, "{}", {});
  }

  static void run(const TrainConfig& config, JobStart start) {
    TrainingJob job(config, start, BadRows::kRefuse, {});
    open(job);
    job.run({}, {});
  }

  ScratchDirectory base_;
  ScratchDirectory place_;
};

TEST_F(TrainingJobs, AResumedRunIsLoggedAsItsConfigurationHasItNow) {
  run(config(), JobStart::kNew);
  run(TrainingJob::config_of(path("run"), {"max_steps=5", "save_steps=3"}), JobStart::kResume);
  std::ifstream log(path("run/trainer_log.jsonl"));
  std::vector<std::uint64_t> totals;
  for (std::string line; std::getline(log, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    totals.push_back(entry["total_steps"]);
    EXPECT_LE(entry["percentage"], 100) << line;
  }
  EXPECT_EQ(totals, (std::vector<std::uint64_t>{2, 2, 5, 5, 5}));
  const nlohmann::json state = nlohmann::json::parse(std::ifstream(path("run/trainer_state.json")));
  EXPECT_EQ(state["max_steps"], 5);
  EXPECT_EQ(state["save_steps"], 3);
  EXPECT_EQ(state["log_history"].size(), 5U);
}

// A run that learns nothing has its best loss at its first step.
TEST_F(TrainingJobs, GoingBackForgetsABestCheckpointThatIsGone) {
  TrainConfig still = config();
  still.learning_rate = 0;
  still.max_steps = 3;
  still.val_set_size = 2;
  still.eval_strategy = still.save_strategy = RunStrategy::kSteps;
  still.save_steps = {.steps = 1};
  still.load_best_model_at_end = true;
  run(still, JobStart::kNew);
  const auto position_at = [&](std::uint64_t step) {
    TrainingJob job(still, JobStart::kResume, BadRows::kRefuse, {});
    job.go_back_to(step, nullptr);
    open(job);
    return job.position();
  };
  EXPECT_EQ(position_at(3).best_step, 1U);
  std::filesystem::remove_all(path("run/checkpoint-1"));
  const RunPosition position = position_at(2);
  EXPECT_EQ(position.step, 2U);
  EXPECT_EQ(position.best_loss, std::nullopt);
  EXPECT_EQ(position.evaluations_since_best, 0U);
  // And so it stays, also where the run is ended before its next step.
  TrainingJob again(still, JobStart::kResume, BadRows::kRefuse, {});
  open(again);
  EXPECT_EQ(again.position(), position);
}

TEST_F(TrainingJobs, WhatStandsAndWhatIsToComeIsCounted) {
  const auto checkpoints = [](const TrainConfig& config, JobStart start, std::optional<std::uint64_t> from = {}) {
    TrainingJob job(config, start, BadRows::kRefuse, {});
    if (from) job.go_back_to(*from, nullptr);
    return job.checkpoints();
  };
  TrainConfig saving = config();
  saving.save_strategy = RunStrategy::kSteps;
  saving.save_steps = {.steps = 1};
  saving.max_steps = 3;
  EXPECT_EQ(checkpoints(saving, JobStart::kNew).num_to_come, 2U);
  EXPECT_TRUE(checkpoints(saving, JobStart::kNew).is_every_step);
  run(saving, JobStart::kNew);
  saving.max_steps = 9;
  saving.save_steps = {.steps = 2};
  const RunCheckpoints after = checkpoints(saving, JobStart::kResume);
  EXPECT_EQ(after.num_standing, 3U);
  EXPECT_FALSE(after.goes_on_between);
  EXPECT_EQ(after.num_to_come, 3U) << "4, 6 and 8";
  std::filesystem::remove_all(path("run/checkpoint-1"));
  EXPECT_EQ(checkpoints(saving, JobStart::kResume).num_standing, 2U);
  EXPECT_EQ(checkpoints(saving, JobStart::kResume, 2).num_standing, 1U);
  EXPECT_EQ(checkpoints(saving, JobStart::kResume, 2).num_to_come, 3U);

  TrainConfig other = config();
  other.output_dir = path("other");
  run(other, JobStart::kNew);
  const RunCheckpoints between = checkpoints(other, JobStart::kResume);
  EXPECT_EQ(between.num_standing, 0U);
  EXPECT_TRUE(between.goes_on_between) << "from its end, which is no checkpoint";
  other.save_strategy = RunStrategy::kSteps;
  other.save_steps = {.steps = 2};
  other.max_steps = 5;
  EXPECT_EQ(checkpoints(other, JobStart::kResume).num_to_come, 2U) << "that of step 2 is due still, and 4";
  other.save_strategy = RunStrategy::kEpoch;
  other.max_steps.reset();
  other.num_epochs = 3;
  EXPECT_EQ(checkpoints(other, JobStart::kResume).num_to_come, 2U) << "the last one is at the end";
}

TEST_F(TrainingJobs, ARunWhoseDriveIsGoneDoesNotBeginAgain) {
  TrainConfig apart = config();
  apart.cache = {path("drive")};
  std::filesystem::create_directory(path("drive"));
  run(apart, JobStart::kNew);
  std::filesystem::rename(path("drive"), path("unmounted"));
  std::filesystem::create_directory(path("drive"));
  TrainingJob job(apart, JobStart::kResume, BadRows::kRefuse, {});
  EXPECT_THROW(job.checkpoints(), InvalidInput);
  EXPECT_THROW(open(job), InvalidInput);
  EXPECT_TRUE(std::filesystem::is_empty(path("drive")));
}

TEST_F(TrainingJobs, ARunThatIsReplacedLeavesNothingInItsOwnCache) {
  TrainConfig old = config();
  old.cache = {path("old")};
  run(old, JobStart::kNew);
  ASSERT_FALSE(std::filesystem::is_empty(path("old")));
  write_text(path("old/note"), "of somebody else");
  TrainConfig fresh = config();
  fresh.cache = {path("new")};
  fresh.overwrite_output_dir = true;
  run(fresh, JobStart::kNew);
  EXPECT_FALSE(std::filesystem::is_empty(path("new")));
  std::filesystem::remove(path("old/note"));
  EXPECT_TRUE(std::filesystem::is_empty(path("old")));
}

}  // namespace
}  // namespace sluice
