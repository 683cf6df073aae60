// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/handmade_plan.h"
#include "plan/plan_text.h"

namespace sluice {
namespace {

using testing::HasSubstr;

Plan small_plan(OptimizerState optimizer = OptimizerState::kAdamWF32) {
  PlanRequest request{.model = "handmade", .arch = small_arch(8), .machine = slow_machine()};
  request.optimizer = optimizer;
  request.sequence_len = 512;
  request.accumulation = 4;
  request.budgets = {32 * kMiB, 96 * kMiB, kGiB};
  request.buffers = {.chunk_bytes = 64 * kKiB, .staging_bytes = kMiB, .optimizer_windows = 2};
  return make_plan(request);
}

std::string failure_of(const nlohmann::json& json, const Architecture& arch) {
  try {
    schedule_from_json(json, arch, "plan.json");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "none";
}

TEST(PlanJson, ItsScheduleReadsBackAsItWas) {
  for (const OptimizerState optimizer : kOptimizerStates) {
    Plan plan = small_plan(optimizer);
    plan.schedule.stored_layers = 5;
    plan.schedule.kept_attention = 3;
    const nlohmann::json json = nlohmann::json::parse(to_json(plan).dump());
    const Schedule read = schedule_from_json(json.at("schedule"), plan.request.arch, "plan.json");
    EXPECT_EQ(read.optimizer, optimizer);
    EXPECT_EQ(read.stored_layers, 5);
    EXPECT_EQ(read.kept_attention, 3);
    EXPECT_EQ(to_json(plan.request.arch, read), to_json(plan.request.arch, plan.schedule));
    EXPECT_EQ(step_memory(plan.request.arch, read, plan.buffers),
              step_memory(plan.request.arch, plan.schedule, plan.buffers));
  }
}

TEST(PlanJson, RefusesASchedulesOfAnotherModelAndWhatTheTrainerCannotRun) {
  const Plan plan = small_plan();
  const nlohmann::json whole(to_json(plan.request.arch, plan.schedule));
  EXPECT_THAT(failure_of(whole, small_arch(7)), HasSubstr("slices"));
  nlohmann::json json = whole;
  json["slices"][3]["weights"] = "tape";
  EXPECT_THAT(failure_of(json, plan.request.arch), HasSubstr("slices[3].weights"));
  json = whole;
  json["weight_places"] = 0;
  EXPECT_THAT(failure_of(json, plan.request.arch), HasSubstr("weight_places"));
  json = whole;
  json["stored_layers"] = 9;
  EXPECT_THAT(failure_of(json, plan.request.arch), HasSubstr("stored_layers"));
  json = whole;
  json["dtype"] = "f16";
  EXPECT_THAT(failure_of(json, plan.request.arch), HasSubstr("dtype"));
  json = whole;
  json["optimizer"] = "adamw_2bit";
  EXPECT_THAT(failure_of(json, plan.request.arch), HasSubstr("adamw_8bit"));
}

TEST(PlanText, KeepsToTheWidthOfTheTerminal) {
  const Plan plan = small_plan();
  for (const std::size_t columns : {60, 80, 120}) {
    const std::string text = render_plan(plan, columns);
    std::size_t width = 0;
    for (const char byte : text) {
      if (byte == '\n') {
        EXPECT_LE(width, columns);
        width = 0;
      } else if ((static_cast<unsigned char>(byte) & 0xC0U) != 0x80U) {
        ++width;
      }
    }
  }
}

TEST(PlanText, SaysHowManyLayersAreStored) {
  Plan plan = small_plan();
  for (const auto& [layers, words] : std::vector<std::pair<std::int64_t, std::string>>{
           {0, "every layer again"}, {5, "5 of 8 layers, the rest is computed again"}, {8, "all layers"}}) {
    plan.schedule.stored_layers = layers;
    EXPECT_THAT(render_plan(plan, 100), HasSubstr(words));
  }
}

TEST(PlanText, NamesWhatBoundsTheStepAndWhatTheDrivesTake) {
  const Plan plan = small_plan();
  const std::string text = render_plan(plan, 100);
  EXPECT_THAT(text, HasSubstr(std::string(name(plan.forecast.bound)) + " bounds it"));
  EXPECT_THAT(text, HasSubstr("of its life"));
  EXPECT_THAT(text, HasSubstr("AdamW with f32 moments"));
  EXPECT_THAT(render_plan(small_plan(OptimizerState::kAdamW8Bit), 100), HasSubstr("AdamW with 8-bit moments"));
  EXPECT_THAT(text, HasSubstr(format_bytes(plan.memory.host.total())));
}

}  // namespace
}  // namespace sluice
