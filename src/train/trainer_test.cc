// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <limits>

#include <gtest/gtest.h>

namespace sluice {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

TEST(RunPosition, ALossThatIsNotFiniteIsNeverTheBest) {
  RunPosition position{.step = 1};
  EXPECT_FALSE(position.judge(kNotANumber));
  EXPECT_EQ(position.best_loss, std::nullopt);
  position.step = 2;
  EXPECT_TRUE(position.judge(3.5));
  position.step = 3;
  EXPECT_FALSE(position.judge(-std::numeric_limits<double>::infinity()));
  position.step = 4;
  EXPECT_FALSE(position.judge(kNotANumber));
  EXPECT_EQ(
      position,
      (RunPosition{.step = 4, .best_loss = 3.5, .best_step = 2, .evaluations_since_best = 2, .evaluated_step = 4}));
  position.step = 5;
  EXPECT_TRUE(position.judge(3.25));
  EXPECT_EQ(position.evaluations_since_best, 0U);
}

TEST(RunPosition, IsReadAsItWasNoted) {
  const RunPosition position{.step = 7,
                             .data = {.epoch = 1, .step_in_epoch = 2},
                             .total_tokens = 900,
                             .best_loss = 1.0 / 3,
                             .best_step = 5,
                             .evaluations_since_best = 1,
                             .evaluated_step = 6,
                             .elapsed_s = 12.345};
  EXPECT_EQ(RunPosition::from_note(position.to_note()), position);
}

TEST(RunPosition, ANoteOfAnOlderVersionHasNoElapsedTime) {
  const std::string note =
      R"({"step":7,"epoch":1,"step_in_epoch":2,"total_tokens":900,"best_step":0,"evaluations_since_best":0,)"
      R"("evaluated_step":0})";
  EXPECT_EQ(RunPosition::from_note(note).elapsed_s, 0);
}

TEST(RunPosition, ANoteWithALossThatWasNotFiniteIsStillRead) {
  RunPosition position{.step = 7, .best_loss = kNotANumber, .best_step = 5};
  const RunPosition found = RunPosition::from_note(position.to_note());
  position.best_loss.reset();
  EXPECT_EQ(found, position);
}

}  // namespace
}  // namespace sluice
