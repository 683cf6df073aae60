// SPDX-License-Identifier: Apache-2.0
#include "format/gguf_encoding.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/bf16.h"

namespace sluice {
namespace {

struct Q8Block {
  F16 scale;
  std::array<std::int8_t, kQ8BlockElements> wholes;
};
static_assert(sizeof(Q8Block) == 34);

Q8Block encode_block(const std::vector<float>& values) {
  std::array<std::byte, sizeof(Q8Block)> bytes{};
  EXPECT_EQ(encode_elements(bytes, GgufEncoding::kQ8, values), Encoded::kAll);
  Q8Block block;
  std::memcpy(&block, bytes.data(), sizeof block);
  return block;
}

TEST(GgufEncoding, TheLargestOfABlockBecomes127AndHalvesGoAwayFromZero) {
  std::vector<float> values(32, 0.0F);
  values[0] = -254;  // a scale of 2
  values[1] = 5;
  values[2] = -5;
  values[3] = 4.9F;
  const Q8Block block = encode_block(values);
  EXPECT_EQ(to_float(block.scale), 2);
  EXPECT_EQ(block.wholes[0], -127);
  EXPECT_EQ(block.wholes[1], 3);
  EXPECT_EQ(block.wholes[2], -3);
  EXPECT_EQ(block.wholes[3], 2);
  EXPECT_EQ(block.wholes[4], 0);
}

TEST(GgufEncoding, BlocksOfNothingAndOfNextToNothingAreZero) {
  for (const float value : {0.0F, 1e-44F, std::numeric_limits<float>::denorm_min()}) {
    const Q8Block block = encode_block(std::vector<float>(32, value));
    EXPECT_EQ(to_float(block.scale), 0);
    EXPECT_EQ(block.wholes[7], 0);
  }
}

TEST(GgufEncoding, SaysWhatAnEncodingCannotHold) {
  std::array<std::byte, 128> bytes{};
  std::vector<float> values(32, 1.0F);
  values[31] = 70000;
  EXPECT_EQ(encode_elements(std::span(bytes).first(64), GgufEncoding::kF16, values), Encoded::kNotHeld);
  EXPECT_EQ(encode_elements(std::span(bytes).first(64), GgufEncoding::kBF16, values), Encoded::kAll);
  EXPECT_EQ(encode_elements(std::span(bytes).first(34), GgufEncoding::kQ8, values), Encoded::kAll);
  values[31] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(encode_elements(std::span(bytes).first(34), GgufEncoding::kQ8, values), Encoded::kNotHeld);
  EXPECT_EQ(encode_elements(bytes, GgufEncoding::kF32, values), Encoded::kAll);
  values[31] = 1e8F;
  EXPECT_EQ(encode_elements(std::span(bytes).first(34), GgufEncoding::kQ8, values), Encoded::kNotHeld);
}

}  // namespace
}  // namespace sluice
