// SPDX-License-Identifier: Apache-2.0
// tests/run_files_test.py decodes whole files; here are the published checksums and bytes worked out by hand.
#include "train/event_record.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice {
namespace {

// RFC 3720, appendix B.4, and the check value of the CRC catalogue.
TEST(Crc32c, GivesThePublishedValues) {
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending += static_cast<char>(i);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(ascending), 0x46DD794EU);
  EXPECT_EQ(crc32c(std::string(ascending.rbegin(), ascending.rend())), 0x113FDB5CU);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(EventRecord, IsTheProtobufMessageInItsFrame) {
  const std::string record = scalars_record({.wall_seconds = 1.0, .step = 300}, {{"a", 0.5}});
  const std::string event = std::string("\x09\0\0\0\0\0\0\xF0\x3F", 9) +      // 1: 1.0
                            std::string("\x10\xAC\x02", 3) +                  // 2: 300
                            std::string("\x2A\x0A\x0A\x08\x0A\x01\x61", 7) +  // 5: { 1: { 1: "a",
                            std::string("\x15\0\0\0\x3F", 5);                 //        2: 0.5f } }
  EXPECT_EQ(record.substr(0, 8), std::string("\x18\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 24), event);
  EXPECT_EQ(record.size(), 12U + 24U + 4U);
}

}  // namespace
}  // namespace sluice
