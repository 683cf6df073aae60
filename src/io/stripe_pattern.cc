// SPDX-License-Identifier: Apache-2.0
#include "io/stripe_pattern.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace sluice {

StripePattern::StripePattern(std::vector<std::uint32_t> weights) : weights_(std::move(weights)) {
  CHECK(!weights_.empty(), "a pattern has drives");
  for (const std::uint32_t weight : weights_) CHECK(weight >= 1 && weight <= kMaxWeight, "a weight is 1 to 1000");
  const std::uint64_t total = std::accumulate(weights_.begin(), weights_.end(), std::uint64_t{0});
  // Smooth weighted round robin: every drive earns its weight each turn, the richest is served and pays the total.
  std::vector<std::int64_t> credit(weights_.size(), 0);
  std::vector<std::uint64_t> served(weights_.size(), 0);
  for (std::uint64_t turn = 0; turn < total; ++turn) {
    for (std::size_t i = 0; i < weights_.size(); ++i) credit[i] += weights_[i];
    const auto richest = static_cast<std::uint32_t>(std::max_element(credit.begin(), credit.end()) - credit.begin());
    credit[richest] -= static_cast<std::int64_t>(total);
    round_.push_back({richest, served[richest]++});
  }
}

StripePattern::Place StripePattern::place(std::uint64_t chunk_idx) const {
  const std::uint64_t rounds = chunk_idx / round_.size();
  Place place = round_[chunk_idx % round_.size()];
  place.chunk_on_drive += rounds * weights_[place.drive_idx];
  return place;
}

std::uint64_t StripePattern::chunks_on_drive(std::uint32_t drive_idx, std::uint64_t num_chunks) const {
  std::uint64_t count = num_chunks / round_.size() * weights_[drive_idx];
  for (std::uint64_t i = 0; i < num_chunks % round_.size(); ++i) count += round_[i].drive_idx == drive_idx ? 1 : 0;
  return count;
}

std::vector<std::uint32_t> weights_from_speeds(const std::vector<double>& gb_per_s) {
  const auto [slowest, fastest] = std::minmax_element(gb_per_s.begin(), gb_per_s.end());
  std::vector<std::uint32_t> weights(gb_per_s.size(), 1);
  if (gb_per_s.empty() || *fastest <= 0 || *slowest >= 0.9 * *fastest) return weights;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<std::uint32_t>(std::max(1.0, std::round(16.0 * gb_per_s[i] / *fastest)));
  }
  return weights;
}

}  // namespace sluice
