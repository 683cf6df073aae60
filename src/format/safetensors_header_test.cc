// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors_header.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "format/handmade_files.h"

namespace sluice {
namespace {

using testing::HasSubstr;

SafetensorsHeader parse_tensors(const std::string& file) {
  return parse_safetensors_header(bytes_of_text(file), file.size(), "f");
}

SafetensorsHeader parse_tensors(const std::string& json, std::size_t data_bytes) {
  return parse_tensors(handmade_safetensors(json, std::string(data_bytes, 'x')));
}

TEST(SafetensorsHeader, ReadsNamesTypesShapesAndPlacesInTheFile) {
  const std::string json = R"({"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                           R"("__metadata__":{"format":"pt"},)"
                           R"("a":{"shape":[],"data_offsets":[0,4],"dtype":"F32"},)"
                           R"("none":{"dtype":"I64","shape":[0,7],"data_offsets":[16,16]}}   )";
  const SafetensorsHeader header = parse_tensors(json, 16);
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, DType::kF32);
  EXPECT_EQ(header.tensors[0].shape, Shape());
  EXPECT_EQ(header.tensors[0].offset_bytes, 8 + json.size());
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].dtype, DType::kBF16);
  EXPECT_EQ(header.tensors[1].shape, Shape({2, 3}));
  EXPECT_EQ(header.tensors[1].offset_bytes, 8 + json.size() + 4);
  EXPECT_EQ(header.tensors[1].size_bytes, 12U);
  EXPECT_EQ(header.tensors[2].size_bytes, 0U);
}

TEST(SafetensorsHeader, KeepsTensorsOfTypesThatSluiceLacks) {
  const SafetensorsHeader header = parse_tensors(
      R"({"d":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"q":{"dtype":"F4","shape":[6],"data_offsets":[8,11]}})",
      11);
  EXPECT_EQ(header.tensors[0].dtype_text, "F64");
  EXPECT_EQ(header.tensors[0].dtype, std::nullopt);
  EXPECT_EQ(header.tensors[1].size_bytes, 3U);
}

TEST(SafetensorsHeader, SkipsKeysOfATensorThatItDoesNotKnow) {
  const SafetensorsHeader header =
      parse_tensors(R"({"a":{"x":[{"dtype":"U8","y":[1,[2]]},null,-1.5],"z":{},"w":true,"v":"t","u":3,)"
                    R"("dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                    1);
  ASSERT_EQ(header.tensors.size(), 1U);
  EXPECT_EQ(header.tensors[0].dtype, DType::kU8);
}

TEST(SafetensorsHeader, AcceptsNoTensorsAndNullMetadata) {
  EXPECT_TRUE(parse_tensors(R"({})", 0).tensors.empty());
  EXPECT_TRUE(parse_tensors(R"({"__metadata__":null})", 0).metadata.empty());
}

struct BadHeader {
  const char* json;
  std::size_t data_bytes;
  const char* message;
};

// One tensor "t" whose fields are given.
#define TENSOR(fields) "{\"t\":{" fields "}}"

TEST(SafetensorsHeader, RefusesWhatDoesNotAddUpInOneSentence) {
  const std::vector<BadHeader> bad{
      {"[]", 0, "does not begin with '{'"},
      {" {}", 0, "does not begin with '{'"},
      {"", 0, "does not begin with '{'"},
      {"{", 0, "is not JSON: it goes wrong at byte 10"},
      {"{}{}", 0, "is not JSON"},
      {"{\"t\xff\":1}", 0, "is not JSON"},
      {R"({"t":1e999})", 0, "is not JSON"},
      {R"({"t":3})", 0, "has 3 under \"t\"; expected an object with dtype, shape and data_offsets"},
      {R"({"t":null})", 0, "has null under \"t\""},
      {R"({"__metadata__":{"a":1}})", 0, "has 1 under \"a\" of \"__metadata__\"; expected a text"},
      {R"({"__metadata__":{"a":"1","a":"1"}})", 0, "has \"a\" twice in its __metadata__"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "has \"__metadata__\" twice"},
      {TENSOR(R"("shape":[1],"data_offsets":[0,1])"), 1, "tensor \"t\" of 'f' has no dtype"},
      {TENSOR(R"("dtype":"U8","data_offsets":[0,1])"), 1, "has no shape"},
      {TENSOR(R"("dtype":"U8","shape":[1])"), 1, "has no data_offsets"},
      {TENSOR(R"("dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1])"), 1, "has the key \"dtype\" twice"},
      {TENSOR(R"("dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1])"), 1, "has the key \"shape\" twice"},
      {TENSOR(R"("dtype":"X9","shape":[1],"data_offsets":[0,1])"), 1, "has the dtype \"X9\""},
      {TENSOR(R"("dtype":8,"shape":[1],"data_offsets":[0,1])"), 1, "has 8 under \"dtype\" of \"t\"; expected a text"},
      {TENSOR(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), 1, "has -1 under \"shape\" of \"t\""},
      {TENSOR(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), 1, "has \"1.0\" under \"shape\""},
      {TENSOR(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])"), 1, "has a list under \"shape\""},
      {TENSOR(R"("dtype":"U8","shape":1,"data_offsets":[0,1])"), 1, "expected a list of dimensions"},
      {TENSOR(R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1])"), 1, "below 2^63"},
      {TENSOR(R"("dtype":"U8","shape":[1,1,1,1,1,1],"data_offsets":[0,1])"), 1, "more than 5 dimensions"},
      {TENSOR(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0, "cannot be counted"},
      {TENSOR(R"("dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"), 0, "cannot be counted"},
      {TENSOR(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"), 0, "cannot be counted"},
      {TENSOR(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])"), 1, "does not fill whole bytes"},
      {TENSOR(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4,
       "takes 8 bytes, and its data_offsets leave it 4"},
      {TENSOR(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), 1, "ends at data offset 0, before its begin at 1"},
      {TENSOR(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), 1, "has 1 data_offsets"},
      {TENSOR(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), 1, "more than two data_offsets"},
      {TENSOR(R"("dtype":"U8","shape":[1],"data_offsets":[-1,0])"), 1, "has -1 under \"data_offsets\""},
      {TENSOR(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), 2, "leaves a gap after the header"},
      {TENSOR(R"("dtype":"U8","shape":[9],"data_offsets":[0,9])"), 8, "was its download cut off?"},
      {TENSOR(R"("dtype":"U8","shape":[8],"data_offsets":[18446744073709551607,18446744073709551615])"), 8, "a gap"},
      {TENSOR(R"("dtype":"U8","shape":[8],"data_offsets":[0,8])"), 9, "expected its end"},
      {R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"u":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "tensor \"u\" of 'f' begins at data offset 1, which overlaps \"t\" (it ends at 2)"},
      {R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"u":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
       5, "which leaves a gap after \"t\""},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2, "has \"t\" twice"},
  };
  for (const BadHeader& header : bad) {
    const std::string message = message_of<FormatError>([&] { parse_tensors(header.json, header.data_bytes); });
    EXPECT_THAT(message, HasSubstr(header.message)) << header.json;
    EXPECT_THAT(message, HasSubstr("'f'")) << header.json;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(SafetensorsHeader, RefusesALengthThatCannotBe) {
  const auto refusal = [](const std::string& file) { return message_of<FormatError>([&] { parse_tensors(file); }); };
  EXPECT_THAT(refusal("1234567"), HasSubstr("'f' is 7 bytes long"));
  EXPECT_THAT(refusal(""), HasSubstr("'f' is 0 bytes long"));
  EXPECT_THAT(refusal(std::string(7, '\0') + "\xff{}"), HasSubstr("at most 100000000"));
  EXPECT_THAT(refusal(std::string("\x03\0\0\0\0\0\0\0{}", 10)), HasSubstr("has 3 bytes, and the file ends after 2"));
  EXPECT_THAT(refusal(std::string(8, '\0')), HasSubstr("does not begin"));
}

TEST(SafetensorsHeader, CutsWhatItQuotesFromTheFile) {
  const std::string json = fmt::format(R"({{"{}\n":0}})", std::string(100'000, 'n'));
  EXPECT_LT(message_of<FormatError>([&] { parse_tensors(json, 0); }).size(), 300U);
}

TEST(SafetensorsHeader, WhatItMakesItReads) {
  const std::vector<PlannedTensor> planned{{"w\"\\\n\u00e9", DType::kBF16, Shape({3, 5})},
                                           {"s", DType::kF32, Shape()},
                                           {"e", DType::kU8, Shape({0})},
                                           {"q", DType::kF8E4M3, Shape({2, 1, 1, 1, 2})}};
  const std::string text = make_safetensors_header(planned, {{"format", "pt"}, {"k\"", "v"}});
  EXPECT_EQ(text.size() % kSafetensorsDataAlignment, 0U);
  EXPECT_EQ(text.find_last_not_of(' '), text.rfind('}'));
  const SafetensorsHeader header = parse_tensors(text + std::string(30 + 4 + 4, 'd'));
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"k\"", "v"}}));
  ASSERT_EQ(header.tensors.size(), planned.size());
  std::uint64_t offset = text.size();
  for (const std::size_t i : {0, 1, 2, 3}) {
    EXPECT_EQ(header.tensors[i].name, planned[i].name);
    EXPECT_EQ(header.tensors[i].dtype, planned[i].dtype);
    EXPECT_EQ(header.tensors[i].shape, planned[i].shape);
    EXPECT_EQ(header.tensors[i].offset_bytes, offset);
    offset += planned[i].size_bytes();
  }
}

TEST(SafetensorsHeader, RefusesToMakeWhatCouldNotBeRead) {
  const auto make = [](const std::vector<PlannedTensor>& planned) { make_safetensors_header(planned, {}); };
  EXPECT_THROW(make({{"a", DType::kU8, Shape()}, {"a", DType::kU8, Shape()}}), InvalidInput);
  EXPECT_THROW(make({{"__metadata__", DType::kU8, Shape()}}), InvalidInput);
  EXPECT_THROW(make({{"\xff", DType::kU8, Shape()}}), InvalidInput);
}

}  // namespace
}  // namespace sluice
