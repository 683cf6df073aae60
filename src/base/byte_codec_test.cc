// SPDX-License-Identifier: Apache-2.0
#include "base/byte_codec.h"

#include <array>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

constexpr std::uint32_t kSmall = 0x01020304;
constexpr std::uint64_t kLarge = 0xFEDCBA9876543210;
const std::string kText("a\0b, \xc3\xa9", 7);

std::vector<std::byte> sample() {
  ByteWriter writer;
  writer.u32(kSmall);
  writer.u64(kLarge);
  writer.text(kText);
  writer.text("");
  writer.u64(2);  // a count of 4-byte items
  writer.u32(8);
  writer.u32(9);
  return writer.take();
}

struct Sample {
  std::uint32_t small = 0;
  std::uint64_t large = 0;
  std::string text;
  std::string empty = "not read";
  std::vector<std::uint32_t> items;
};

Sample read_sample(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "sample.bin");
  Sample sample;
  sample.small = reader.u32();
  sample.large = reader.u64();
  sample.text = reader.text();
  sample.empty = reader.text();
  const std::uint64_t num_items = reader.count(sizeof(std::uint32_t));
  for (std::uint64_t i = 0; i < num_items; ++i) sample.items.push_back(reader.u32());
  reader.expect_end();
  return sample;
}

TEST(ByteCodec, ReadsBackWhatWasWritten) {
  const Sample sample_read = read_sample(sample());
  EXPECT_EQ(sample_read.small, kSmall);
  EXPECT_EQ(sample_read.large, kLarge);
  EXPECT_EQ(sample_read.text, kText);
  EXPECT_EQ(sample_read.empty, "");
  EXPECT_EQ(sample_read.items, (std::vector<std::uint32_t>{8, 9}));
}

TEST(ByteCodec, BytesAreLittleEndianAndTextFollowsItsLength) {
  ByteWriter writer;
  writer.u32(kSmall);
  writer.u64(kLarge);
  writer.text("Hi");
  std::vector<std::byte> expected;
  for (const int byte :
       {4, 3, 2, 1, 0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE, 2, 0, 0, 0, 0, 0, 0, 0, 0x48, 0x69}) {
    expected.push_back(static_cast<std::byte>(byte));
  }
  EXPECT_EQ(writer.take(), expected);
}

TEST(ByteCodec, TruncationAtEveryLengthIsAFormatErrorThatSaysWhere) {
  const std::vector<std::byte> whole = sample();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    // A copy of just this length, so that a sanitizer sees any read beyond it.
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    try {
      read_sample(cut);
      ADD_FAILURE() << length << " bytes were enough";
    } catch (const FormatError& error) {
      EXPECT_EQ(std::string(error.what()).find("sample.bin: "), 0U) << error.what();
    }
  }
}

TEST(ByteCodec, BytesLeftOverAreAFormatError) {
  std::vector<std::byte> bytes = sample();
  bytes.push_back(std::byte{0});
  EXPECT_THROW(read_sample(bytes), FormatError);
}

// If anything were allocated for these, it would end in length_error or bad_alloc.
TEST(ByteCodec, LengthsAndCountsThatLieAreRefusedBeforeAnythingIsAllocated) {
  constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
  // 24 bytes follow: three items of 8, or two of 12 with none left over.
  for (const std::uint64_t lie : {std::uint64_t{25}, std::uint64_t{1} << 40, kTop / 8 + 1, kTop / 8 + 2, kTop}) {
    ByteWriter writer;
    writer.u64(lie);
    for (int i = 0; i < 3; ++i) writer.u64(0);
    const std::vector<std::byte> bytes = writer.take();
    EXPECT_THROW(ByteReader(bytes, "x").text(), FormatError) << lie;
    for (const std::uint64_t item_bytes : {1, 8, 12}) {
      EXPECT_THROW(ByteReader(bytes, "x").count(item_bytes), FormatError) << lie << " items of " << item_bytes;
    }
  }
}

TEST(ByteCodec, CountIsBoundedByWhatFollowsIt) {
  for (std::uint64_t claimed = 0; claimed <= 5; ++claimed) {
    ByteWriter writer;
    writer.u64(claimed);
    for (int i = 0; i < 3; ++i) writer.u64(0);
    const std::vector<std::byte> bytes = writer.take();
    ByteReader reader(bytes, "x");
    if (claimed <= 3) {
      EXPECT_EQ(reader.count(8), claimed);
    } else {
      EXPECT_THROW(reader.count(8), FormatError);
    }
  }
}

TEST(ByteCodec, NumbersAtAPlaceTouchNothingElse) {
  std::array<std::byte, 24> block{};
  store_u64(block, 5, kLarge);
  store_u32(block, 13, kSmall);
  EXPECT_EQ(load_u64(block, 5), kLarge);
  EXPECT_EQ(load_u32(block, 13), kSmall);
  for (std::size_t i = 0; i < block.size(); ++i) EXPECT_EQ(block[i] != std::byte{0}, i >= 5 && i < 17) << i;
}

}  // namespace
}  // namespace sluice
