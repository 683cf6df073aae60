// SPDX-License-Identifier: Apache-2.0
// Frequencies against torch's (tests/reference/make_rope.py), for contexts of thousands of tokens multiply what they
// are off.
#include "model/rope.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace sluice {
namespace {

// As the script has it.
constexpr std::int64_t kPositions = 4096;

Rope rope_of(const std::string& kind, double theta, std::int64_t dim) {
  Rope rope{.theta = theta, .rotary_dim = dim, .factor = 8, .max_positions = kPositions};
  rope.original_max_positions = kPositions;
  if (kind == "linear") rope.scaling = RopeScaling::kLinear;
  if (kind == "yarn") rope.scaling = RopeScaling::kYarn;
  if (kind == "llama3") {
    rope.scaling = RopeScaling::kLlama3;
    rope.original_max_positions = 8192;
  }
  if (kind.starts_with("longrope")) {
    rope.scaling = RopeScaling::kLongRope;
    for (std::int64_t pair = 0; pair < dim / 2; ++pair) {
      rope.short_factors.push_back(1 + static_cast<double>(pair) / 16);
      rope.long_factors.push_back(1 + static_cast<double>(pair) / 4);
    }
  }
  return rope;
}

// Powers that torch's own function rounds the other way are few.
TEST(Rope, FrequenciesAreTorchsToTheBitButForAFew) {
  std::ifstream file(std::string(SLUICE_REFERENCE_DIR) + "/rope.json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  struct Count {
    int all = 0;
    int same = 0;
  };
  std::map<std::string, Count> counts;
  for (const nlohmann::json& one : cases) {
    const auto kind = one.at("kind").get<std::string>();
    const Rope rope = rope_of(kind, one.at("theta").get<double>(), one.at("dim").get<std::int64_t>());
    const std::vector<float> ours = inverse_frequencies(rope, kind == "longrope, beyond" ? kPositions + 1 : kPositions);
    const auto expected = one.at("frequencies").get<std::vector<std::string>>();
    ASSERT_EQ(ours.size(), expected.size()) << kind;
    for (std::size_t idx = 0; idx < ours.size(); ++idx) {
      const float theirs = std::strtof(expected[idx].c_str(), nullptr);
      EXPECT_NEAR(ours[idx], theirs, 4e-7 * std::abs(theirs)) << kind << ", pair " << idx;
      counts[kind].same += ours[idx] == theirs ? 1 : 0;
      ++counts[kind].all;
    }
  }
  EXPECT_GE(counts.size(), 5U);
  for (const auto& [kind, count] : counts) {
    EXPECT_GT(count.all, 100) << kind;
    EXPECT_GE(count.same, count.all * 99 / 100) << kind << ", of " << count.all;
  }
}

}  // namespace
}  // namespace sluice
