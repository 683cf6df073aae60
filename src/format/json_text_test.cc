// SPDX-License-Identifier: Apache-2.0
#include "format/json_text.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "format/handmade_files.h"

namespace sluice {
namespace {

using testing::HasSubstr;

TEST(JsonText, RefusesWhatIsNotJsonOrTooLargeANumber) {
  EXPECT_THAT(message_of<FormatError>([] { parse_json("{\"a\":", "x"); }),
              HasSubstr("x is not JSON: it goes wrong at byte"));
  EXPECT_THAT(message_of<FormatError>([] { parse_json("[1e999]", "x"); }),
              HasSubstr("x has a number that is too large"));
}

TEST(JsonText, RefusesAKeyThatComesTwiceInOneObjectOnly) {
  EXPECT_NO_THROW(parse_json(R"({"a":{"a":1},"b":[{"a":1},{"a":2}]})", "x", DuplicateKeys::kRefuse));
  EXPECT_THROW(parse_json(R"({"b":[{"a":1,"c":{"a":2},"a":3}]})", "x", DuplicateKeys::kRefuse), FormatError);
  EXPECT_EQ(parse_json(R"({"a":1,"a":2})", "x")["a"], 2);
}

TEST(JsonText, RefusesToFollowNestingWithoutEnd) {
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(message_of<FormatError>([&] { parse_json(deep, "x"); }),
              HasSubstr("x is nested more than 64 levels deep"));
  EXPECT_NO_THROW(parse_json(std::string(64, '[') + std::string(64, ']'), "x"));
}

TEST(JsonText, QuotesOnOneLineAndCutsBetweenCharacters) {
  EXPECT_EQ(in_quotes("a\nb\x7f"), "\"a b?\"");
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "\u20ac";  // three bytes each
  EXPECT_EQ(in_quotes("x" + accents), "\"x" + accents.substr(0, 93) + "...\"");
}

TEST(JsonText, MembersAreTakenOutAndTheRestStaysAsItIsWritten) {
  const auto without = [](const char* text) { return without_member(text, "k", "t.json"); };
  EXPECT_EQ(without(R"({"a": 1, "k": {"x": [1, "}"]}, "b" : 2 })"), R"({"a": 1, "b" : 2 })");
  EXPECT_EQ(without(R"({"k":1})"), "{}");
  EXPECT_EQ(without("{\n  \"k\": \"a\\\\\",\n  \"a\": 1\n}"), "{\n  \"a\": 1\n}");
  EXPECT_EQ(without("{\n  \"a\": 1,\n  \"k\": null\n} "), "{\n  \"a\": 1\n} ");
  EXPECT_EQ(without(R"({"k":1,"k":2,"a":"k"})"), R"({"a":"k"})");
  EXPECT_EQ(without(R"(  {"a": {"k": 1}})"), R"(  {"a": {"k": 1}})");
  EXPECT_EQ(without("[1]"), "[1]");
  EXPECT_EQ(without("{}"), "{}");
  EXPECT_THROW(without("{\"k\": "), FormatError);
}

}  // namespace
}  // namespace sluice
