// SPDX-License-Identifier: Apache-2.0
// What the reference tests in tests/ cannot show: broken files, hostile patterns, ranges, streams, threads.
#include "text/tokenizer.h"

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/small_document.h"

namespace sluice {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::function<void(json&)>& damage) {
  json document = small_document();
  damage(document);
  try {
    parse_tokenizer(document.dump(), "tokenizer.json");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "it was taken";
}

TEST(Tokenizer, BrokenFilesAreRefusedByFileAndKey) {
  EXPECT_THAT(refusal([](json& d) { d["model"]["merges"].push_back("a x"); }),
              AllOf(HasSubstr("tokenizer.json"), HasSubstr("model.merges"), HasSubstr("'x'")));
  EXPECT_THAT(refusal([](json& d) { d["model"]["merges"].push_back("b a"); }), HasSubstr("'ba'"));
  EXPECT_THAT(refusal([](json& d) { d["model"]["merges"].push_back("a b b"); }), HasSubstr("model.merges[2]"));
  EXPECT_THAT(refusal([](json& d) { d["model"]["merges"].push_back({"a"}); }), HasSubstr("pair"));
  EXPECT_THAT(refusal([](json& d) { d["model"]["vocab"]["x"] = 4; }), HasSubstr("the id 4 twice"));
  EXPECT_THAT(refusal([](json& d) { d["model"]["vocab"]["x"] = 4000000000U; }), HasSubstr("model.vocab.x"));
  EXPECT_THAT(refusal([](json& d) { d["model"]["vocab"]["x"] = -1; }), HasSubstr("model.vocab.x"));
  EXPECT_THAT(refusal([](json& d) { d["model"]["vocab"]["x"] = "1"; }), HasSubstr("model.vocab.x"));
  EXPECT_THAT(refusal([](json& d) { d["model"]["type"] = "Magic"; }),
              AllOf(HasSubstr("model.type"), HasSubstr("Magic")));
  EXPECT_THAT(refusal([](json& d) { d.erase("model"); }), HasSubstr("'model'"));
  EXPECT_THAT(refusal([](json& d) { d["normalizer"]["type"] = "Magic"; }), HasSubstr("normalizer.type"));
  EXPECT_THAT(refusal([](json& d) { d["decoder"]["type"] = "CTC"; }),
              AllOf(HasSubstr("decoder.type"), HasSubstr("CTC")));
  EXPECT_THAT(refusal([](json& d) { d["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; }),
              AllOf(HasSubstr("pre_tokenizer.pretokenizers[0].pattern.Regex"), HasSubstr("regular expression")));
  EXPECT_THAT(refusal([](json& d) { d["added_tokens"][0]["id"] = 7; }), HasSubstr("added_tokens[0].id"));
  for (const char* const delimiter : {"", "ab"}) {
    EXPECT_THAT(refusal([&](json& d) {
                  d["pre_tokenizer"] = {{"type", "CharDelimiterSplit"}, {"delimiter", delimiter}};
                }),
                AllOf(HasSubstr("pre_tokenizer.delimiter"), HasSubstr("one character")));
  }
  EXPECT_THAT(refusal([](json& d) {
                d["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"x", 8}}, {"sep", {"x", 0}}};
              }),
              HasSubstr("post_processor.cls[1]"));
  EXPECT_THAT(refusal([](json& d) {
                for (int i = 0; i < 100; ++i) {
                  d["normalizer"] = json{{"type", "Sequence"}, {"normalizers", {d["normalizer"]}}};
                }
              }),
              HasSubstr("nested"));
  EXPECT_THAT(refusal([](json&) {}), HasSubstr("taken"));
}

TEST(Tokenizer, ACutFileIsRefusedWhereverItIsCut) {
  const std::string whole = small_document().dump();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(parse_tokenizer(whole.substr(0, size), "tokenizer.json"), FormatError) << size;
  }
}

TEST(Tokenizer, APatternThatBacktracksWithoutEndIsGivenUp) {
  json document = small_document();
  document["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(?:a|aa)+$";
  const auto tokenizer = parse_tokenizer(document.dump(), "tokenizer.json");
  EXPECT_THROW(tokenizer->encode(std::string(200, 'a') + "b", AddSpecial::kNo), FormatError);
}

TEST(Tokenizer, RulesThatMultiplyTextWithoutEndAreGivenUp) {
  json document = small_document();
  json doubling = json::array();
  const json double_a{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  for (int i = 0; i < 60; ++i) doubling.push_back(double_a);
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", doubling}};
  const auto tokenizer = parse_tokenizer(document.dump(), "tokenizer.json");
  EXPECT_THROW(tokenizer->encode("a", AddSpecial::kNo), FormatError);
  document = small_document();
  document["decoder"] = {{"type", "Sequence"}, {"decoders", doubling}};
  EXPECT_THROW(parse_tokenizer(document.dump(), "tokenizer.json")->decode(std::vector<TokenId>{1}, SkipSpecial::kNo),
               FormatError);
}

TEST(Tokenizer, RangesCoverDecomposedCharactersAndPartsOfCharacters) {
  const auto tokenizer = parse_tokenizer(small_document().dump(), "tokenizer.json");
  const Encoding encoding = tokenizer->encode_with_ranges("<s>ab ab\u0065\u0301", AddSpecial::kNo);
  EXPECT_THAT(encoding.ids, ElementsAre(0, 4, 5, 6, 7));
  EXPECT_THAT(encoding.ranges,
              ElementsAre(ByteRange{0, 3}, ByteRange{3, 5}, ByteRange{5, 8}, ByteRange{8, 11}, ByteRange{8, 11}));
}

TEST(Tokenizer, AStreamHoldsBackACharacterUntilItIsWhole) {
  const auto tokenizer = parse_tokenizer(small_document().dump(), "tokenizer.json");
  TokenStream stream(*tokenizer, SkipSpecial::kYes);
  EXPECT_EQ(stream.push(0), "");
  EXPECT_EQ(stream.push(6), "");
  EXPECT_EQ(stream.push(7), "é");
  EXPECT_EQ(stream.push(6), "");
  EXPECT_EQ(stream.push(1), "\uFFFDa");
  EXPECT_EQ(stream.push(6), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefusedWithThePlace) {
  const auto tokenizer = parse_tokenizer(small_document().dump(), "tokenizer.json");
  try {
    tokenizer->encode("ab\xFF", AddSpecial::kNo);
    FAIL() << "it was taken";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("byte 2"));
  }
}

TEST(Tokenizer, ThreadsMayShareOne) {
  const auto tokenizer = parse_tokenizer(small_document().dump(), "tokenizer.json");
  std::string text;
  for (int i = 0; i < 3000; ++i) text += std::string(1 + i % 50, 'a') + " ab";
  const std::vector<TokenId> alone = tokenizer->encode(text, AddSpecial::kNo);
  std::vector<std::vector<TokenId>> together(4);
  std::vector<std::thread> threads;
  threads.reserve(together.size());
  for (auto& ids : together) threads.emplace_back([&] { ids = tokenizer->encode(text, AddSpecial::kNo); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& ids : together) EXPECT_EQ(ids, alone);
}

// Long pieces are cut where no merge can reach across; what comes out must be what merging the whole would give.
TEST(Tokenizer, CuttingLongPiecesDoesNotChangeTheirTokens) {
  json document = small_document();
  document["pre_tokenizer"] = json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const auto cutting = parse_tokenizer(document.dump(), "tokenizer.json");
  // A merge of a stand-in for unknown text makes the seams unknown, and nothing is cut.
  document["model"]["unk_token"] = "<s>";
  document["model"]["vocab"]["<s>a"] = 8;
  document["model"]["merges"].push_back("<s> a");
  const auto whole = parse_tokenizer(document.dump(), "tokenizer.json");
  std::string text;
  unsigned state = 1;
  for (int i = 0; i < 400; ++i) {
    state = state * 1103515245 + 12345;
    text += "ab a"[(state >> 16) % 4];
    EXPECT_EQ(cutting->encode(text, AddSpecial::kNo), whole->encode(text, AddSpecial::kNo)) << text;
  }
}

}  // namespace
}  // namespace sluice
