// SPDX-License-Identifier: Apache-2.0
#include "format/nf4_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

// As bitsandbytes 0.4x writes it.
constexpr const char* kText =
    R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [4096, 14336], "nested_blocksize": 256, )"
    R"("nested_dtype": "float32", "nested_offset": 0.0431734099984169})";

TEST(Nf4State, IsReadAsBitsandbytesWritesIt) {
  const Nf4State state = parse_nf4_state(kText, "here");
  EXPECT_EQ(state.shape, (Shape{4096, 14336}));
  EXPECT_EQ(static_cast<float>(state.absmax_mean), 0.0431734099984169F);
  const Nf4Names names = nf4_names("model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(names.state, "model.layers.0.mlp.up_proj.weight.quant_state.bitsandbytes__nf4");
  EXPECT_EQ(names.absmax_scales, "model.layers.0.mlp.up_proj.weight.nested_absmax");
}

TEST(Nf4State, IsReadAsItIsWritten) {
  const std::string text = make_nf4_state({.shape = {3, 64}, .absmax_mean = 0.1F}, DType::kBF16);
  EXPECT_EQ(text.size(), kNf4StateBytes);
  const Nf4State state = parse_nf4_state(text, "here");
  EXPECT_EQ(state.shape, (Shape{3, 64}));
  EXPECT_EQ(static_cast<float>(state.absmax_mean), 0.1F);
}

TEST(Nf4State, WhatIsOtherwiseIsRefusedByName) {
  const auto refusal = [](std::string text, const std::string& old_part, const std::string& new_part) {
    text.replace(text.find(old_part), old_part.size(), new_part);
    try {
      parse_nf4_state(text, "here");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(kText, "nf4", "fp4"), testing::HasSubstr("quant_type"));
  EXPECT_THAT(refusal(kText, "64,", "128,"), testing::HasSubstr("blocksize is 128"));
  EXPECT_THAT(refusal(kText, "nested_blocksize", "nested"), testing::HasSubstr("double quantisation"));
  EXPECT_THAT(refusal(kText, "256", "64"), testing::HasSubstr("nested_blocksize is 64"));
  EXPECT_THAT(refusal(kText, "[4096, 14336]", "[4096]"), testing::HasSubstr("shape"));
  EXPECT_THAT(refusal(kText, "[4096, 14336]", "[4096, -1]"), testing::HasSubstr("shape"));
  EXPECT_THAT(refusal(kText, "0.0431734099984169", "\"no\""), testing::HasSubstr("nested_offset"));
  EXPECT_THROW(parse_nf4_state("[1]", "here"), FormatError);
  EXPECT_THROW(parse_nf4_state("{", "here"), FormatError);
}

}  // namespace
}  // namespace sluice
