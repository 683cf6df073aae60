// SPDX-License-Identifier: Apache-2.0
#include "infer/sampler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"

namespace sluice {

void require_sound(const Sampling& sampling) {
  const auto refuse = [](const char* setting, double value, const char* range) {
    throw InvalidInput(fmt::format("{} is {}; it must be {}", setting, value, range));
  };
  if (!(sampling.temperature >= 0 && sampling.temperature <= 100)) {
    refuse("temperature", sampling.temperature, "between 0 and 100");
  }
  if (sampling.top_k < 0) refuse("top_k", static_cast<double>(sampling.top_k), "0 or more");
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) refuse("top_p", sampling.top_p, "above 0 and at most 1");
  if (!(sampling.repetition_penalty > 0 && sampling.repetition_penalty <= 100)) {
    refuse("repetition_penalty", sampling.repetition_penalty, "above 0 and at most 100");
  }
  if (!(sampling.min_p >= 0 && sampling.min_p <= 1)) refuse("min_p", sampling.min_p, "between 0 and 1");
}

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling), random_(sampling.seed) { require_sound(sampling); }

void Sampler::keep_candidates(std::span<const float> logits) {
  candidates_.clear();
  candidates_.reserve(logits.size());
  for (std::size_t idx = 0; idx < logits.size(); ++idx) {
    candidates_.push_back({.id = static_cast<std::int32_t>(idx), .logit = logits[idx]});
  }
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  if (sampling_.top_k > 0 && sampling_.top_k < static_cast<std::int64_t>(candidates_.size())) {
    const auto last = candidates_.begin() + sampling_.top_k;
    std::nth_element(candidates_.begin(), last, candidates_.end(), before);
    candidates_.erase(last, candidates_.end());
  }
  std::sort(candidates_.begin(), candidates_.end(), before);

  double total = 0;
  for (Candidate& candidate : candidates_) {
    const double above = static_cast<double>(candidate.logit) - static_cast<double>(candidates_.front().logit);
    candidate.probability = std::exp(above / sampling_.temperature);
    total += candidate.probability;
  }
  std::size_t kept = 0;
  double sum = 0;
  for (; kept < candidates_.size(); ++kept) {
    // As transformers: the token that crosses top_p is kept, those behind it are not.
    if (sum >= sampling_.top_p * total) break;
    if (candidates_[kept].probability < sampling_.min_p * candidates_.front().probability) break;
    sum += candidates_[kept].probability;
  }
  candidates_.resize(std::max<std::size_t>(kept, 1));
}

std::span<const float> Sampler::penalise(std::span<const float> logits, std::span<const std::int32_t> document) {
  if (sampling_.repetition_penalty == 1) return logits;
  const auto penalty = static_cast<float>(sampling_.repetition_penalty);
  penalised_.assign(logits.begin(), logits.end());
  for (const std::int32_t id : document) {
    const auto at = static_cast<std::size_t>(id);
    // From the original: a token that is there twice is penalised once.
    penalised_[at] = logits[at] < 0 ? logits[at] * penalty : logits[at] / penalty;
  }
  return penalised_;
}

std::int32_t Sampler::pick(std::span<const float> raw_logits, std::span<const std::int32_t> document) {
  const std::span<const float> logits = penalise(raw_logits, document);
  CHECK(!logits.empty(), "a vocabulary has tokens");
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  const bool all_numbers = std::none_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
  if (!all_numbers || !std::isfinite(*likeliest)) {
    throw InvalidInput(
        "the model's logits are not finite numbers; its weights are damaged or overflow in this precision");
  }
  if (sampling_.temperature == 0) return static_cast<std::int32_t>(likeliest - logits.begin());
  keep_candidates(logits);
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.probability;
  double left = static_cast<double>(random_.next() >> 11) * 0x1p-53 * total;
  for (const Candidate& candidate : candidates_) {
    left -= candidate.probability;
    if (left < 0) return candidate.id;
  }
  return candidates_.back().id;
}

}  // namespace sluice
