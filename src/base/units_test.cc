// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

TEST(ParseBytes, ReadsBinaryDecimalAndPlainSizes) {
  using Forms = std::vector<std::pair<std::string, std::uint64_t>>;
  const Forms sizes{{"0", 0},
                    {"4096", 4096},
                    {"4096 ", 4096},
                    {"7B", 7},
                    {"1K", 1024},
                    {"3KiB", 3072},
                    {"3KB", 3000},
                    {"512MiB", 536870912},
                    {"512M", 536870912},
                    {"8   MiB", 8388608},
                    {"2MB", 2000000},
                    {"1.5 GiB", 1610612736},
                    {"1G", 1073741824},
                    {"2GB", 2000000000},
                    {"0.25TiB", 274877906944},
                    {"1T", 1099511627776},
                    {"3TB", 3000000000000},
                    {"4194304TiB", 4611686018427387904}};
  for (const auto& [text, bytes] : sizes) EXPECT_EQ(parse_bytes(text), bytes) << "'" << text << "'";
}

TEST(ParseBytes, RefusesEverythingElseAndQuotesIt) {
  const std::string quoted =
      "MiB;-1;-1GiB;--5;+5;nan;inf;-inf;infinity;nanMiB;infGiB;1e9;1e3MiB;1e99;0x10;.;1.2.3;"
      "1 M iB;12MiBs;12 mib;12PiB;1,5GiB;1_000;1'000; 5MiB;5MiB ;5\tMiB;5MiB\n;twelve; ;"
      "4194305TiB;99999999TB;18446744073709551616";
  std::vector<std::string> refused{"", std::string(400, '9')};
  std::istringstream forms(quoted);
  for (std::string form; std::getline(forms, form, ';');) refused.push_back(form);
  for (const std::string& text : refused) {
    try {
      const std::uint64_t bytes = parse_bytes(text);
      ADD_FAILURE() << "'" << text << "' was read as " << bytes;
    } catch (const InvalidInput& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("'" + text + "' is not a size"), std::string::npos) << message;
      EXPECT_NE(message.find("512MiB"), std::string::npos) << message;
    }
  }
}

TEST(FormatBytes, UsesTheLargestUnitThatIsReached) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(1536 * kMiB), "1.50 GiB");
  EXPECT_EQ(format_bytes(kGiB - kMiB), "1023 MiB");
  EXPECT_EQ(format_bytes(kTiB), "1 TiB");
  EXPECT_EQ(format_bytes(kMiB - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(5000 * kTiB), "5000 TiB");
}

TEST(FormatBytes, WhatItPrintsOfWholeUnitsParsesBackToTheSame) {
  for (std::uint64_t unit = 1; unit <= kTiB; unit *= 1024) {
    for (const std::uint64_t count : {1, 2, 7, 512, 1023}) {
      EXPECT_EQ(parse_bytes(format_bytes(count * unit)), count * unit);
    }
  }
}

TEST(Rounding, AgreesWithCountingUp) {
  for (std::uint64_t multiple = 1; multiple <= 9; ++multiple) {
    std::uint64_t steps = 0;  // the fewest multiples that reach `value`
    for (std::uint64_t value = 0; value <= 100; ++value) {
      if (steps * multiple < value) ++steps;
      EXPECT_EQ(div_ceil(value, multiple), steps);
      EXPECT_EQ(round_up(value, multiple), steps * multiple);
      EXPECT_EQ(round_down(value, multiple), steps * multiple == value ? value : (steps - 1) * multiple);
      EXPECT_EQ(is_aligned(value, multiple), steps * multiple == value);
    }
  }
}

TEST(Rounding, DivCeilDoesNotOverflowAtTheTop) {
  constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(div_ceil(kTop, 1), kTop);
  EXPECT_EQ(div_ceil(kTop, 2), std::uint64_t{1} << 63);
  EXPECT_EQ(div_ceil(kTop, kTop), 1U);
}

TEST(GbPerS, IsDecimalAndZeroWhereNoTimeHasPassed) {
  EXPECT_DOUBLE_EQ(gb_per_s(7000000000, 2.0), 3.5);
  EXPECT_EQ(gb_per_s(7000000000, 0.0), 0.0);
}

}  // namespace
}  // namespace sluice
