// SPDX-License-Identifier: Apache-2.0
#include "train/run_log.h"

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "io/posix/posix_file.h"
#include "io/scratch_directory.h"
#include "io/threads/threads_engine.h"
#include "train/loss_curve.h"
#include "train/run_results.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RunLogTest : public testing::Test {
 protected:
  RunLogPlace place() { return {files_, engine_, clock_, wall_clock_, scratch_.path("out"), "test"}; }

  std::vector<nlohmann::json> lines() {
    std::vector<nlohmann::json> result;
    std::ifstream file(scratch_.path("out/trainer_log.jsonl"));
    for (std::string line; std::getline(file, line);) result.push_back(nlohmann::json::parse(line));
    return result;
  }

  std::vector<std::uint64_t> steps() {
    std::vector<std::uint64_t> result;
    for (const nlohmann::json& line : lines()) result.push_back(line.at("current_steps"));
    return result;
  }

  void add_to_log(const std::string& text) {
    std::ofstream(scratch_.path("out/trainer_log.jsonl"), std::ios::app) << text;
  }

  static void train(RunLog& log, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t step = from; step <= to; ++step) {
      log.reach({.step = step, .epoch = 0.5, .total_tokens = step * 10});
      log.log(TrainingEntry{.loss = 1.0 / static_cast<double>(step)});
    }
  }

  ScratchDirectory scratch_;
  PosixFileSystem files_;
  ThreadsEngine engine_{1};
  ManualClock clock_;
  ManualClock wall_clock_;
};

TEST_F(RunLogTest, ResumingDropsLaterLinesAndTheOneThatACrashCut) {
  TrainerState state{.max_steps = 10};
  {
    RunLog log(place(), state);
    train(log, 1, 6);
    state = log.state();
  }
  add_to_log(R"({"current_steps": 7, "lo)");
  state.global_step = 4;
  RunLog log = RunLog::resume(place(), state);
  EXPECT_EQ(log.state().log_history.size(), 4U);
  train(log, 5, 7);
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(log.state().log_history.size(), 7U);
}

TEST_F(RunLogTest, ANewRunReplacesTheLogOfAnOlderOne) {
  {
    RunLog log(place(), {.max_steps = 10});
    train(log, 1, 6);
  }
  RunLog log(place(), {.max_steps = 10});
  train(log, 1, 2);
  EXPECT_THAT(steps(), ElementsAre(1, 2));
}

TEST_F(RunLogTest, TimesArePrintedAsDaysHoursMinutesAndSeconds) {
  RunLog log(place(), {.max_steps = 3});
  clock_.advance_ns(93784'900'000'000);
  train(log, 1, 1);
  EXPECT_EQ(lines().at(0).at("elapsed_time"), "1 day, 2:03:04");
  EXPECT_EQ(lines().at(0).at("remaining_time"), "2 days, 4:06:09");
}

TEST_F(RunLogTest, ACheckpointBetweenLoggedStepsKnowsItsStep) {
  RunLog log(place(), {.max_steps = 10});
  train(log, 1, 1);
  log.reach({.step = 2, .epoch = 0.75, .total_tokens = 99});
  log.save_state(scratch_.path());
  const TrainerState state = read_trainer_state(files_, engine_, scratch_.path());
  EXPECT_EQ(state.global_step, 2U);
  EXPECT_EQ(state.epoch, 0.75);
  EXPECT_EQ(state.num_input_tokens_seen, 99U);
  EXPECT_EQ(state.log_history.size(), 1U);
}

TEST_F(RunLogTest, ALossThatIsNotANumberLeavesFilesThatCanBeRead) {
  RunLog log(place(), {.max_steps = 10});
  train(log, 1, 2);
  log.reach({.step = 3});
  log.log(TrainingEntry{.loss = std::numeric_limits<double>::quiet_NaN()});
  log.save();
  EXPECT_TRUE(lines().at(2).at("loss").is_null());
  const TrainerState state = read_trainer_state(files_, engine_, scratch_.path("out"));
  EXPECT_TRUE(std::isnan(state.log_history.at(2).loss.value()));
  std::ifstream file(scratch_.path("out/loss_curve.svg"));
  const std::string svg((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(svg, testing::Not(HasSubstr("nan")));
  EXPECT_THAT(svg, HasSubstr("<polyline"));
}

// An engine whose drive is full for a while.
class FullDrive : public ThreadsEngine {
 public:
  FullDrive() : ThreadsEngine(1) {}
  bool is_full = false;

 protected:
  void start(std::vector<Transfer> transfers) override {
    if (is_full) throw IoError(ENOSPC, "the drive is full");
    ThreadsEngine::start(std::move(transfers));
  }
};

TEST_F(RunLogTest, AFullDriveIsWarnedOfOnceAndEntriesGoOnWhenThereIsRoom) {
  FullDrive engine;
  RunLogPlace small = place();
  RunLogPlace full_place{files_, engine, clock_, wall_clock_, small.output_dir, small.run_name};
  std::vector<std::string> warnings;
  const LogRedirect redirect([&](LogLevel, std::string_view line) { warnings.emplace_back(line); });
  RunLog log(full_place, {.max_steps = 10});
  train(log, 1, 2);
  engine.is_full = true;
  train(log, 3, 5);
  log.save();
  EXPECT_THAT(warnings,
              ElementsAre(HasSubstr("trainer_log.jsonl misses entries (No space left on device)"),
                          HasSubstr("event file"), HasSubstr("trainer_state.json"), HasSubstr("loss_curve.svg")));
  EXPECT_THROW(log.save_state(scratch_.path()), IoError);  // a checkpoint's state is not optional
  engine.is_full = false;
  train(log, 6, 7);
  log.save();
  EXPECT_THAT(steps(), ElementsAre(1, 2, 6, 7));
  EXPECT_EQ(read_trainer_state(files_, engine_, small.output_dir).log_history.size(), 7U);
}

TEST_F(RunLogTest, ElapsedTimeGoesOnWhereTheRunWasLeft) {
  RunLogPlace resumed = place();
  RunLog log({files_, engine_, clock_, wall_clock_, resumed.output_dir, resumed.run_name, 3600}, {.max_steps = 3});
  clock_.advance_ns(60'000'000'000);
  train(log, 1, 1);
  EXPECT_EQ(lines().at(0).at("elapsed_time"), "1:01:00");
  EXPECT_EQ(lines().at(0).at("remaining_time"), "0:02:00");
}

TEST(RunResults, AreOfAFinishedRunOnlyBesideAModel) {
  const ScratchDirectory scratch;
  PosixFileSystem files;
  ThreadsEngine engine(1);
  EXPECT_FALSE(find_finished_run(scratch.path()).has_value());
  write_run_results(files, engine, scratch.path(), {.steps = 7, .epoch = 1.5, .total_tokens = 70, .elapsed_s = 12.5});
  EXPECT_FALSE(find_finished_run(scratch.path()).has_value());
  std::ofstream(scratch.path("adapter_model.safetensors")) << "weights";
  const std::optional<RunResults> found = find_finished_run(scratch.path());
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->steps, 7U);
  EXPECT_EQ(found->elapsed_s, 12.5);
  for (const char* damaged : {"", "[]", "{\"steps\": -1}", "{\"steps\": \"many\"}"}) {
    std::ofstream(scratch.path(std::string(kRunResultsName))) << damaged;
    EXPECT_FALSE(find_finished_run(scratch.path()).has_value()) << damaged;
  }
}

TEST(TrainerState, ReadsWhatItWrites) {
  TrainerState state{.global_step = 7, .max_steps = 9, .epoch = 0.3, .num_train_epochs = 1.5, .logging_steps = 2};
  state.best_metric = 0.1;
  state.best_model_checkpoint = "out/checkpoint-5";
  state.log_history = {{.step = 5, .epoch = 0.1, .loss = 2.5, .grad_norm = 0.7, .learning_rate = 1e-5},
                       {.step = 5, .epoch = 0.1, .eval_loss = 2.25}};
  const TrainerState again = parse_trainer_state(trainer_state_json(state), "state");
  EXPECT_EQ(trainer_state_json(again), trainer_state_json(state));
  EXPECT_EQ(again.log_history.at(0).learning_rate, 1e-5);
  EXPECT_FALSE(again.log_history.at(1).loss.has_value());
  EXPECT_EQ(again.num_train_epochs, 1.5);
}

TEST(TrainerState, RefusesWhatIsNotOne) {
  for (const char* text : {"[]", "{\"global_step\": -1}", "{\"log_history\": 3}", "{\"log_history\": [1]}",
                           "{\"best_model_checkpoint\": 5}", "{\"epoch\": \"x\"}", "{"}) {
    EXPECT_THROW(parse_trainer_state(text, "state"), FormatError) << text;
  }
}

TEST(LossCurve, StaysSmallHoweverLongTheRunWasAndKeepsItsPeaks) {
  std::vector<HistoryEntry> history;
  for (std::uint64_t step = 1; step <= 200000; ++step) history.push_back({.step = step, .loss = 1.0});
  history[77777].loss = 3.0;
  const std::string svg = loss_curve_svg(history, "a < b & c");
  EXPECT_LT(svg.size(), 60000U);
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  // Within the margin of a twentieth of the losses' extent, the peak reaches the top of the plot.
  const double margin = (3.0 - 1.0) * 0.05;
  const double top = 396 + (3.0 - (1.0 - margin)) / (2.0 + 2 * margin) * (48.0 - 396.0);
  EXPECT_THAT(svg, HasSubstr(fmt::format(",{:.1f} ", top)));
}

TEST(LossCurve, DrawsWhateverWasLogged) {
  EXPECT_THAT(loss_curve_svg({}, "none"), HasSubstr("no loss was logged"));
  EXPECT_THAT(loss_curve_svg({{.step = 1, .loss = 2.5}}, "one"), HasSubstr("<circle"));
  EXPECT_THAT(loss_curve_svg({{.step = 1, .loss = 0}, {.step = 2, .loss = 0}}, "zero"), HasSubstr("<polyline"));
  EXPECT_THAT(loss_curve_svg({{.step = ~0ULL, .loss = 1e29}, {.step = 0, .loss = -1e29}}, "wide"), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace sluice
