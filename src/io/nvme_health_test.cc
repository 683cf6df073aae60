// SPDX-License-Identifier: Apache-2.0
#include "io/nvme_health.h"

#include <array>
#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

using Page = std::array<std::byte, 512>;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

void put(Page& page, std::size_t offset, std::initializer_list<int> bytes) {
  for (const int value : bytes) page[offset++] = static_cast<std::byte>(value);
}

// A drive after 10,000 hours: 0x01020304 data units written, 8 % used, 310 K.
Page worn_page() {
  Page page{};
  put(page, 1, {0x36, 0x01});
  put(page, 3, {98, 10, 8});
  put(page, 32, {0xFF, 0xFF, 0xFF, 0xFF});  // read, which must not be taken for written
  put(page, 48, {0x04, 0x03, 0x02, 0x01});
  put(page, 128, {0x10, 0x27});
  put(page, 160, {3});
  return page;
}

NvmeHealth worn(int percentage_used, std::uint64_t written_bytes) {
  NvmeHealth health;
  health.percentage_used = percentage_used;
  health.written_bytes = written_bytes;
  return health;
}

TEST(NvmeHealth, ReadsEveryFieldFromItsPlaceInThePage) {
  Page page = worn_page();
  put(page, 0, {0x05});
  const NvmeHealth health = parse_nvme_health(page);
  EXPECT_EQ(health.critical_warning, 5);
  EXPECT_EQ(health.temperature_c, 37);
  EXPECT_EQ(health.available_spare_percent, 98);
  EXPECT_EQ(health.spare_threshold_percent, 10);
  EXPECT_EQ(health.percentage_used, 8);
  EXPECT_EQ(health.written_bytes, 16909060ULL * 512000);
  EXPECT_EQ(health.power_on_hours, 10000U);
  EXPECT_EQ(health.media_errors, 3U);
}

TEST(NvmeHealth, ATemperatureOfZeroKelvinIsNone) {
  Page page = worn_page();
  put(page, 1, {0, 0});
  EXPECT_FALSE(parse_nvme_health(page).temperature_c);
}

TEST(NvmeHealth, CountersBeyond64BitsStopAtTheEnd) {
  Page page = worn_page();
  put(page, 48 + 7, {0x80});   // 2^63 data units
  put(page, 128 + 8, {0x01});  // 2^64 hours
  put(page, 160 + 15, {0x01});
  const NvmeHealth health = parse_nvme_health(page);
  EXPECT_EQ(health.written_bytes, kMax);
  EXPECT_EQ(health.power_on_hours, kMax);
  EXPECT_EQ(health.media_errors, kMax);
  EXPECT_FALSE(rated_life_bytes(health));
}

TEST(NvmeHealth, AShortPageIsAFormatError) {
  const Page page{};
  EXPECT_THROW(parse_nvme_health({}), FormatError);
  EXPECT_THROW(parse_nvme_health(std::span(page).first(511)), FormatError);
  EXPECT_NO_THROW(parse_nvme_health(page));
}

TEST(NvmeHealth, RatedLifeIsWhatHundredPercentWouldBe) {
  EXPECT_EQ(rated_life_bytes(worn(8, 80'000'000'000'000)), 1'000'000'000'000'000U);
  EXPECT_EQ(rated_life_bytes(worn(3, 1001)), 33366U);
  EXPECT_EQ(rated_life_bytes(worn(200, 600)), 300U);
}

TEST(NvmeHealth, RatedLifeIsUnknownWhereThePageDoesNotTell) {
  EXPECT_FALSE(rated_life_bytes(worn(0, 1'000'000)));
  EXPECT_FALSE(rated_life_bytes(worn(8, 0)));
  EXPECT_FALSE(rated_life_bytes(worn(255, 1'000'000)));
  EXPECT_FALSE(rated_life_bytes(worn(1, kMax - 1)));
}

TEST(NvmeHealth, WhatIsNoNvmeDriveSaysSo) {
  const NvmeHealthReading directory = read_nvme_health(std::filesystem::temp_directory_path().string());
  EXPECT_FALSE(directory.health);
  EXPECT_NE(directory.why_not.find("is not an NVMe drive"), std::string::npos) << directory.why_not;
  const NvmeHealthReading missing = read_nvme_health("/dev/sluice-none");
  EXPECT_FALSE(missing.health);
  EXPECT_NE(missing.why_not.find("No such file"), std::string::npos) << missing.why_not;
}

}  // namespace
}  // namespace sluice
