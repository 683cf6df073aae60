// SPDX-License-Identifier: Apache-2.0
#include "base/closest_word.h"

#include <vector>

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(ClosestWord, IsTheOneWithTheFewestMistakes) {
  const std::vector<std::string> verbs{"env", "train", "resume", "plan", "tokenize", "template"};
  EXPECT_EQ(closest_word("trian", verbs), "train");
  EXPECT_EQ(closest_word("resme", verbs), "resume");
  EXPECT_EQ(closest_word("tokenise", verbs), "tokenize");
  EXPECT_EQ(closest_word("pln", verbs), "plan");
  EXPECT_EQ(closest_word("temp", verbs), "template");
  EXPECT_EQ(closest_word("nonsense", verbs), std::nullopt);
  EXPECT_EQ(closest_word("xy", std::vector<std::string>{"ab"}), std::nullopt);
  EXPECT_EQ(closest_word(std::string(1000, 'a'), verbs), std::nullopt);
}

TEST(ClosestWord, NeighboursThatAreSwappedAreOneMistake) {
  EXPECT_EQ(edit_distance("trian", "train"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("same", "same"), 0U);
}

}  // namespace
}  // namespace sluice
