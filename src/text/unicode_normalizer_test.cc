// SPDX-License-Identifier: Apache-2.0
// What Hugging Face tokenizers (0.23) makes of characters that join with what stands before them only once they are
// decomposed, and of one that utf8proc would lose.
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/normalizer.h"

namespace sluice {
namespace {

std::string normalized(const std::string& form, const std::string& text) {
  const nlohmann::json document{{"type", form}};
  const std::string where = "tokenizer.json";
  AlignedText result(text, 0, Tracking::kOff);
  for (const auto& normalizer : parse_normalizers(JsonView(document, where))) {
    result = normalizer->apply(std::move(result));
  }
  return result.text();
}

TEST(NormalForms, WhatDecomposesJoinsWithWhatStandsBefore) {
  EXPECT_EQ(normalized("NFKC", "\uFF76\uFF9E"), "\u30AC");  // half-width kana and its sound mark
  EXPECT_EQ(normalized("NFKC", "\u30AB\uFF9E"), "\u30AC");
  EXPECT_EQ(normalized("NFKC", "\u3131\u314F"), "\uAC00");  // Hangul letters that stand alone
  EXPECT_EQ(normalized("NFKC", "\uFFA1\uFFC2"), "\uAC00");
  EXPECT_EQ(normalized("NFC", "\uFF76\uFF9E"), "\uFF76\uFF9E");
}

TEST(NormalForms, WhatIsNoHangulFinalStays) {
  EXPECT_EQ(normalized("NFC", "\uAC00\u11A7"), "\uAC00\u11A7");
  EXPECT_EQ(normalized("NFC", "\u1100\u1161\u11A7"), "\uAC00\u11A7");
  EXPECT_EQ(normalized("NFC", "\u1100\u1161\u11A8"), "\uAC01");
}

// A run of marks is ordered in time that grows with its length; marks of one class stay as they stood.
TEST(NormalForms, ManyMarksAreOrderedAtOnce) {
  EXPECT_EQ(normalized("NFD", "a\u0301\u0323\u0300\u0331"), "a\u0323\u0331\u0301\u0300");
  std::string marks = "q";
  std::string ordered = "q";
  constexpr int kCount = 200'000;
  for (int i = 0; i < kCount; ++i) marks += "\u0301\u0323";
  for (int i = 0; i < kCount; ++i) ordered += "\u0323";
  for (int i = 0; i < kCount; ++i) ordered += "\u0301";
  EXPECT_EQ(normalized("NFC", marks), ordered);
}

}  // namespace
}  // namespace sluice
