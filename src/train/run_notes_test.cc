// SPDX-License-Identifier: Apache-2.0
#include "train/run_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Architecture rotary(std::int64_t positions, const Rope& rope = {}) {
  Architecture arch;
  arch.max_positions = positions;
  arch.ropes = {rope};
  return arch;
}

TEST(RunNotes, SequencesBeyondTheModelsContextAreNoted) {
  TrainConfig config;
  config.sequence_len = 8192;
  EXPECT_THAT(run_notes(config, rotary(8192), 100), IsEmpty());
  EXPECT_THAT(run_notes(config, rotary(4096), 100),
              ElementsAre(HasSubstr("sequence_len is 8192, and the model was made for 4096 positions")));
  EXPECT_THAT(run_notes(config, rotary(4096, {.scaling = RopeScaling::kLinear, .factor = 2}), 100), IsEmpty());
  EXPECT_THAT(
      run_notes(config, rotary(4096, {.scaling = RopeScaling::kYarn, .factor = 4, .original_max_positions = 2048}),
                100),
      IsEmpty());
  EXPECT_EQ(
      context_tokens(rotary(131072, {.scaling = RopeScaling::kLlama3, .factor = 8, .original_max_positions = 8192})),
      131072);
  Architecture learned;
  learned.learned_positions = 2050;
  learned.position_offset = 2;
  EXPECT_EQ(context_tokens(learned), 2048);
}

TEST(RunNotes, WhatTheRunIsTooShortForIsNoted) {
  const Architecture arch = rotary(1 << 20);
  TrainConfig config;
  config.warmup_steps = 10;
  EXPECT_THAT(run_notes(config, arch, 11), IsEmpty());
  EXPECT_THAT(run_notes(config, arch, 10), ElementsAre(HasSubstr("learning_rate is never reached")));
  config.lr_scheduler = LrScheduler::kConstant;
  EXPECT_THAT(run_notes(config, arch, 10), IsEmpty()) << "the configuration's own notes say so";
  config = {};
  config.save_strategy = RunStrategy::kSteps;
  config.save_steps = {.steps = 11};
  config.logging_steps = {.steps = 12};
  EXPECT_THAT(run_notes(config, arch, 10),
              ElementsAre(HasSubstr("save_steps is 11, and the run has 10 steps"), HasSubstr("logging_steps is 12")));
  config = {};
  config.val_set_size = 0.1;
  config.eval_strategy = RunStrategy::kSteps;
  config.eval_steps = {.steps = 4};
  config.early_stopping_patience = 2;
  EXPECT_THAT(run_notes(config, arch, 10), IsEmpty());
  config.early_stopping_patience = 3;
  EXPECT_THAT(run_notes(config, arch, 10), ElementsAre(HasSubstr("has 3 evaluations: it cannot end early")));
  config.eval_steps = {.steps = 11};
  config.early_stopping_patience.reset();
  EXPECT_THAT(run_notes(config, arch, 10), ElementsAre(HasSubstr("eval_steps is 11")));
}

}  // namespace
}  // namespace sluice
