// SPDX-License-Identifier: Apache-2.0
#include "cli/train_area.h"

#include <string>

#include <gtest/gtest.h>

#include "base/units.h"
#include "cli/text_layout.h"

namespace sluice {
namespace {

TrainAreaState in_the_middle() {
  TrainAreaState state{.step = 1234,
                       .total_steps = 3300,
                       .epoch = 1.12,
                       .left_s = 5025,
                       .elapsed_s = 3001,
                       .losses = {4, 3, 2.5, 2.2, 2, 1.9, 1.8},
                       .held_out_loss = 2.0456,
                       .use = {.device = {.used_bytes = 20 * kGiB},
                               .host = {.used_bytes = 96 * kGiB},
                               .drives = {.used_bytes = 512 * kGiB}},
                       .budgets = {.device = 24 * kGiB, .host = 128 * kGiB, .drives = 2 * kTiB},
                       .commit = TrainAreaState::Kept{.step = 1200, .age_s = 85},
                       .next_commit_s = 515,
                       .checkpoint = TrainAreaState::Kept{.step = 1000, .age_s = 7500}};
  state.learning = {.loss = 1.8123, .grad_norm = 0.534, .learning_rate = 1.2e-5, .tokens_per_s = 12345, .step_s = 2.43};
  state.learning->lane_shares[static_cast<std::size_t>(Lane::kCompute)] = 0.92;
  return state;
}

std::string picture(const TrainAreaState& state, std::size_t num_columns) {
  std::string text = "\n";
  for (const std::string& line : render_train_area(state, num_columns, AreaColours::kNone)) text += line + "\n";
  return text;
}

TEST(TrainArea, At200Columns) {
  EXPECT_EQ(picture(in_the_middle(), 199), R"(
train   ▕██████████████▉                         ▏   37 %  step 1,234/3,300  epoch 1.12  ETA 1:23:45
loss    1.8123  █▅▃▂▂▁▁  held-out 2.0456  lr 1.20e-05  grad norm 0.53
speed   12,345 tok/s  2.430 s/step  bottleneck compute 92 %  elapsed 50:01
memory  device 20 of 24 GiB  host 96 of 128 GiB  drives 512 GiB of 2 TiB
kept    step 1,200 (1 min ago)  next commit in 8 min  checkpoint-1000 (2 h 05 min ago)
)");
}

TEST(TrainArea, At80Columns) {
  EXPECT_EQ(picture(in_the_middle(), 79), R"(
train   ▕███████            ▏   37 %  step 1,234/3,300  epoch 1.12  ETA 1:23:45
loss    1.8123  █▅▃▂▂▁▁  held-out 2.0456  lr 1.20e-05  grad norm 0.53
speed   12,345 tok/s  2.430 s/step  bottleneck compute 92 %  elapsed 50:01
memory  device 20 of 24 GiB  host 96 of 128 GiB  drives 512 GiB of 2 TiB
kept    step 1,200 (1 min ago)  next commit in 8 min  checkpoint-1000
)");
}

TEST(TrainArea, At40Columns) {
  EXPECT_EQ(picture(in_the_middle(), 39), R"(
train   step 1,234/3,300  ETA 1:23:45
loss    1.8123  █▅▃▂▁▁  held-out 2.0456
speed   12,345 tok/s  2.430 s/step
memory  device 20 of 24 GiB  host 75 %
kept    step 1,200  next in 8 min
)");
}

TEST(TrainArea, BeforeTheFirstStepItSaysThatItWaits) {
  const TrainAreaState state{.total_steps = 8, .budgets = {.device = kGiB, .host = kGiB}};
  EXPECT_EQ(picture(state, 79), R"(
train   ▕                              ▏    0 %  step 0/8  epoch 0.00  ETA -:--
loss    waiting for the first step
speed   elapsed 0:00
memory  device 0 B of 1 GiB  host 0 B of 1 GiB
kept    no checkpoint yet
)");
}

TEST(TrainArea, NoLineIsTooLong) {
  TrainAreaState state = in_the_middle();
  state.shows_lanes = true;
  for (std::size_t columns = 20; columns < 200; ++columns) {
    for (const AreaColours colours : {AreaColours::kNone, AreaColours::kSome}) {
      for (const std::string& line : render_train_area(state, columns, colours)) {
        EXPECT_LE(display_width(line), columns) << line;
      }
    }
  }
}

TEST(TrainArea, AStepOfALogIsOneLine) {
  EXPECT_EQ(train_step_text(in_the_middle()),
            "step 1234/3300  epoch 1.12  loss 1.8123  grad norm 0.53  lr 1.20e-05  12,345 tok/s  2.430 s/step  elapsed "
            "50:01  ETA 1:23:45");
}

}  // namespace
}  // namespace sluice
