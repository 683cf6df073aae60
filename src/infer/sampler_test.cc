// SPDX-License-Identifier: Apache-2.0
#include "infer/sampler.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  logits.reserve(probabilities.size());
  for (const double probability : probabilities) logits.push_back(static_cast<float>(std::log(probability)));
  return logits;
}

std::vector<int> count_draws(const Sampling& sampling, const std::vector<float>& logits, int num_draws) {
  Sampler sampler(sampling);
  std::vector<int> counts(logits.size(), 0);
  for (int idx = 0; idx < num_draws; ++idx) ++counts[static_cast<std::size_t>(sampler.pick(logits))];
  return counts;
}

std::set<std::size_t> drawn(const Sampling& sampling, const std::vector<float>& logits) {
  std::set<std::size_t> ids;
  const std::vector<int> counts = count_draws(sampling, logits, 2000);
  for (std::size_t id = 0; id < counts.size(); ++id) {
    if (counts[id] > 0) ids.insert(id);
  }
  return ids;
}

// Pearson's statistic of the draws against the probabilities they should have.
double chi_square(const std::vector<int>& counts, const std::vector<double>& probabilities) {
  double total = 0;
  for (const int count : counts) total += count;
  double sum = 0;
  for (std::size_t id = 0; id < counts.size(); ++id) {
    const double expected = total * probabilities[id];
    sum += (counts[id] - expected) * (counts[id] - expected) / expected;
  }
  return sum;
}

TEST(Sampler, GreedyTakesTheLikeliestAndOfEqualsTheFirst) {
  Sampler sampler({.temperature = 0});
  EXPECT_EQ(sampler.pick(std::vector<float>{-1, 3, 2}), 1);
  EXPECT_EQ(sampler.pick(std::vector<float>{-5, 4, 4, 4}), 1);
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(sampler.pick(std::vector<float>{minus_infinity, -7, minus_infinity}), 1);
}

TEST(Sampler, DrawsComeAsOftenAsTheirProbabilitySays) {
  const std::vector<double> probabilities = {0.4, 0.05, 0.25, 0.1, 0.2};
  const std::vector<float> logits = logits_of(probabilities);
  // With four degrees of freedom 23.5 is passed once in ten thousand; the seed is fixed.
  EXPECT_LT(chi_square(count_draws({.seed = 11}, logits, 20000), probabilities), 23.5);

  // At temperature 2 probabilities go as their square roots, at 0.5 as their squares.
  for (const double temperature : {2.0, 0.5}) {
    std::vector<double> bent;
    double total = 0;
    for (const double probability : probabilities) total += bent.emplace_back(std::pow(probability, 1 / temperature));
    for (double& probability : bent) probability /= total;
    EXPECT_LT(chi_square(count_draws({.temperature = temperature, .seed = 12}, logits, 20000), bent), 23.5);
  }
}

TEST(Sampler, TopKLeavesTheLikeliestAndOfEqualsTheFirst) {
  EXPECT_EQ(drawn({.top_k = 2}, logits_of({0.1, 0.3, 0.2, 0.4})), (std::set<std::size_t>{1, 3}));
  EXPECT_EQ(drawn({.top_k = 3}, logits_of({0.1, 0.3, 0.3, 0.3})), (std::set<std::size_t>{1, 2, 3}));
  EXPECT_EQ(drawn({.top_k = 1}, logits_of({0.25, 0.25, 0.25, 0.25})), (std::set<std::size_t>{0}));
  EXPECT_EQ(drawn({.top_k = 99}, logits_of({0.5, 0.5})), (std::set<std::size_t>{0, 1}));
  const std::vector<double> kept = {0.3 / 0.7, 0.4 / 0.7};
  const std::vector<int> counts = count_draws({.top_k = 2, .seed = 5}, logits_of({0.3, 0.1, 0.4, 0.2}), 20000);
  EXPECT_LT(chi_square({counts[0], counts[2]}, kept), 15.1);  // once in ten thousand
}

TEST(Sampler, TopPKeepsTheTokenThatCrossesIt) {
  const std::vector<float> logits = logits_of({0.1, 0.5, 0.3, 0.1});
  EXPECT_EQ(drawn({.top_p = 0.4}, logits), (std::set<std::size_t>{1}));
  EXPECT_EQ(drawn({.top_p = 0.6}, logits), (std::set<std::size_t>{1, 2}));
  EXPECT_EQ(drawn({.top_p = 0.85}, logits), (std::set<std::size_t>{0, 1, 2}));  // of equals the first
  EXPECT_EQ(drawn({.top_p = 1}, logits), (std::set<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(drawn({.top_p = 1e-9}, logits), (std::set<std::size_t>{1}));
  // After top_k, as transformers: of 0.5 and 0.3 the first has 0.625.
  EXPECT_EQ(drawn({.top_k = 2, .top_p = 0.62}, logits), (std::set<std::size_t>{1}));
}

TEST(Sampler, MinPIsAPartOfTheLikeliest) {
  const std::vector<float> logits = logits_of({0.1, 0.5, 0.3, 0.1});
  EXPECT_EQ(drawn({.min_p = 0.5}, logits), (std::set<std::size_t>{1, 2}));
  EXPECT_EQ(drawn({.min_p = 1}, logits), (std::set<std::size_t>{1}));
  // After the temperature: the square root of 0.1 / 0.5 is 0.45.
  EXPECT_EQ(drawn({.temperature = 2, .min_p = 0.4}, logits), (std::set<std::size_t>{0, 1, 2, 3}));
}

// As transformers' RepetitionPenaltyLogitsProcessor: negative logits are multiplied, others divided, once each.
TEST(Sampler, TokensThatAreThereAlreadyArePenalised) {
  const std::vector<float> logits{2.0F, 1.5F, -1.0F, -1.5F};
  Sampler sampler({.temperature = 0, .repetition_penalty = 1.6});
  EXPECT_EQ(sampler.pick(logits), 0);
  EXPECT_EQ(sampler.pick(logits, std::vector<std::int32_t>{0, 0}), 1);     // 1.25 1.5 -1.0 -1.5
  EXPECT_EQ(sampler.pick(logits, std::vector<std::int32_t>{0, 1, 0}), 0);  // 1.25 0.94
  const std::vector<float> below{-1.0F, -1.5F};
  EXPECT_EQ(sampler.pick(below, std::vector<std::int32_t>{0}), 1);  // -1.6 -1.5
}

TEST(Sampler, OneSeedDrawsOneSequence) {
  const std::vector<float> logits(50, 0.0F);
  const auto sequence = [&](std::uint64_t seed) {
    Sampler sampler({.seed = seed});
    std::vector<std::int32_t> ids(40);
    for (std::int32_t& id : ids) id = sampler.pick(logits);
    return ids;
  };
  EXPECT_EQ(sequence(3), sequence(3));
  EXPECT_NE(sequence(3), sequence(4));
}

TEST(Sampler, WhatIsNoNumberIsRefused) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 1.0}) {
    Sampler sampler({.temperature = temperature});
    EXPECT_THROW(sampler.pick(std::vector<float>{1, std::nanf(""), 2}), InvalidInput);
    EXPECT_THROW(sampler.pick(std::vector<float>{std::nanf(""), 1}), InvalidInput);
    EXPECT_THROW(sampler.pick(std::vector<float>{1, infinity}), InvalidInput);
    EXPECT_THROW(sampler.pick(std::vector<float>{-infinity, -infinity}), InvalidInput);
  }
}

TEST(Sampler, SettingsOutOfTheirRangeAreNamed) {
  const double nan = std::nan("");
  const std::vector<std::pair<Sampling, std::string>> wrong = {{{.temperature = -0.1}, "temperature"},
                                                               {{.temperature = nan}, "temperature"},
                                                               {{.top_k = -1}, "top_k"},
                                                               {{.top_p = 0}, "top_p"},
                                                               {{.top_p = 1.1}, "top_p"},
                                                               {{.top_p = nan}, "top_p"},
                                                               {{.min_p = -0.1}, "min_p"},
                                                               {{.min_p = 1.5}, "min_p"}};
  for (const auto& [sampling, setting] : wrong) {
    try {
      Sampler sampler(sampling);
      ADD_FAILURE() << setting << " was not refused";
    } catch (const InvalidInput& error) {
      EXPECT_NE(std::string(error.what()).find(setting), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace sluice
