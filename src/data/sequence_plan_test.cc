// SPDX-License-Identifier: Apache-2.0
#include "data/sequence_plan.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "data/held_out.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::uint32_t> random_lengths(std::size_t count, std::uint32_t longest) {
  Random random(7);
  std::vector<std::uint32_t> lengths(count);
  // Most are short, as in real data.
  for (std::uint32_t& length : lengths)
    length = 1 + static_cast<std::uint32_t>(random.below(1 + random.below(longest)));
  return lengths;
}

TEST(SequencePlan, HoldsEveryDocumentOnceAndNoSequenceTooFull) {
  const std::vector<std::uint32_t> lengths = random_lengths(20'000, 2048);
  for (const Packing packing : {Packing::kPacked, Packing::kOneDocument}) {
    const SequencePlan plan = plan_sequences(lengths, 2048, packing, 3);
    std::vector<int> seen(lengths.size());
    for (std::size_t i = 0; i < plan.num_sequences(); ++i) {
      std::uint64_t num_tokens = 0;
      for (const std::uint32_t document : plan.sequence(i)) {
        ++seen[document];
        num_tokens += lengths[document];
      }
      EXPECT_LE(num_tokens, 2048U);
      EXPECT_GT(num_tokens, 0U);
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 20'000);
  }
}

TEST(SequencePlan, FillsSequencesNearlyToTheBrim) {
  const std::vector<std::uint32_t> lengths = random_lengths(20'000, 2048);
  EXPECT_GT(plan_sequences(lengths, 2048, Packing::kPacked, 3).fill(2048), 0.99);
  // By hand: 5+3, 4+4, 6+2 and nothing else fills eights.
  const SequencePlan plan = plan_sequences(std::vector<std::uint32_t>{4, 2, 5, 4, 3, 6}, 8, Packing::kPacked, 1);
  EXPECT_EQ(plan.num_sequences(), 3U);
  EXPECT_EQ(plan.fill(8), 1.0);
  EXPECT_EQ(plan_sequences({}, 8, Packing::kPacked, 1).num_sequences(), 0U);
}

TEST(SequencePlan, IsTheSeedsAndNothingElses) {
  const std::vector<std::uint32_t> lengths = random_lengths(1'000, 64);
  const SequencePlan plan = plan_sequences(lengths, 64, Packing::kPacked, 3);
  EXPECT_EQ(plan.documents, plan_sequences(lengths, 64, Packing::kPacked, 3).documents);
  EXPECT_NE(plan.documents, plan_sequences(lengths, 64, Packing::kPacked, 4).documents);
  // Sequences do not come by length: those of a single long document are all over the plan.
  std::uint64_t first_half = 0;
  for (std::size_t i = 0; i < plan.num_sequences() / 2; ++i) first_half += plan.sequence(i).size();
  EXPECT_NEAR(static_cast<double>(first_half), 500.0, 100.0);
}

TEST(HeldOut, IsAFractionOrACountAndTheRestTrains) {
  const ExampleSplit split = split_examples(1000, 0.05, 1);
  EXPECT_EQ(split.held_out.size(), 50U);
  std::set<std::uint32_t> all(split.train.begin(), split.train.end());
  all.insert(split.held_out.begin(), split.held_out.end());
  EXPECT_EQ(all.size(), 1000U);
  EXPECT_EQ(split.held_out, split_examples(1000, 50, 1).held_out);
  EXPECT_NE(split.held_out, split_examples(1000, 50, 2).held_out);
  EXPECT_LT(split.held_out.front(), 150U);
  EXPECT_GT(split.held_out.back(), 850U);
  EXPECT_EQ(split_examples(3, 0.01, 1).held_out.size(), 1U);
  EXPECT_THAT(split_examples(2, 0, 1).held_out, IsEmpty());
  for (const double wrong : {-0.1, 1.5, 1000.0, 1e12}) EXPECT_THROW(split_examples(1000, wrong, 1), InvalidInput);
}

}  // namespace
}  // namespace sluice
