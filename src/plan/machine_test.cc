// SPDX-License-Identifier: Apache-2.0
#include "plan/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/handmade_plan.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string failure_of(const nlohmann::json& json) {
  try {
    machine_from_json(json, "m.json");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "none";
}

TEST(Machine, ReadsBackWhatItWrites) {
  const nlohmann::ordered_json json = to_json(slow_machine());
  EXPECT_EQ(to_json(machine_from_json(nlohmann::json(json), "m.json")), json);
}

TEST(Machine, FailuresNameTheFileAndTheKey) {
  const nlohmann::json whole(to_json(slow_machine()));
  nlohmann::json json = whole;
  json["device"]["flops_per_second"] = 1;
  EXPECT_THAT(failure_of(json), AllOf(HasSubstr("m.json"), HasSubstr("device.flops_per_second")));
  json = whole;
  json["host"].erase("optimizer_bytes_per_s");
  EXPECT_THAT(failure_of(json), HasSubstr("host.optimizer_bytes_per_s"));
  json = whole;
  json["device"]["attention_flops_per_s"]["bf16"] = 0;
  EXPECT_THAT(failure_of(json), HasSubstr("device.attention_flops_per_s.bf16"));
  json = whole;
  json["device"]["kind"] = "tpu";
  EXPECT_THAT(failure_of(json), HasSubstr("device.kind"));
  json = whole;
  json["drives"][0]["size_bytes"] = -1;
  EXPECT_THAT(failure_of(json), HasSubstr("drives[0].size_bytes"));
  json = whole;
  json["drives"] = 3;
  EXPECT_THAT(failure_of(json), HasSubstr("drives"));
  json = whole;
  json["num_devices"] = 0;
  EXPECT_THAT(failure_of(json), HasSubstr("num_devices"));
  EXPECT_THAT(failure_of(nlohmann::json::array()), HasSubstr("m.json"));
}

TEST(Machine, DrivesHoldPartsThatFollowTheirSpeed) {
  Machine machine = free_machine();
  machine.drives = {
      {.name = "fast", .size_bytes = 300, .read_bytes_per_s = 6e9, .write_bytes_per_s = 3e9, .endurance_bytes = {}},
      {.name = "slow", .size_bytes = 300, .read_bytes_per_s = 3e9, .write_bytes_per_s = 3e9, .endurance_bytes = {}}};
  EXPECT_DOUBLE_EQ(machine.drive_share(0), 2.0 / 3);
  EXPECT_DOUBLE_EQ(machine.drives_read_bytes_per_s(), 9e9);
  EXPECT_DOUBLE_EQ(machine.drives_write_bytes_per_s(), 4.5e9);  // the fast one has two thirds to write
  EXPECT_EQ(machine.drives_size_bytes(), 450U);                 // and is full first
}

TEST(Machine, DrivesThatShareOneSpeedBothWaysHaveLessOfEither) {
  Machine machine = free_machine();
  MachineDrive drive{.name = "a drive", .size_bytes = kMiB, .read_bytes_per_s = 6e9, .write_bytes_per_s = 4e9};
  machine.drives = {drive};
  EXPECT_DOUBLE_EQ(machine.drives_both_ways(), 1);  // nothing is known of it
  drive.mixed_bytes_per_s = 5e9;
  machine.drives.push_back(drive);
  EXPECT_DOUBLE_EQ(machine.drives_both_ways(), 0.5);
  const Machine read = machine_from_json(nlohmann::json(to_json(machine)), "m.json");
  EXPECT_DOUBLE_EQ(read.drives_both_ways(), 0.5);
}

TEST(Machine, WithoutDrivesThereIsNothing) {
  Machine machine = free_machine();
  machine.drives.clear();
  EXPECT_EQ(machine.drives_size_bytes(), 0U);
  EXPECT_EQ(machine.drives_write_bytes_per_s(), 0);
}

}  // namespace
}  // namespace sluice
