// SPDX-License-Identifier: Apache-2.0
// The next token from its logits: the most likely one, or one drawn after the repetition penalty, temperature, top-k
// and top-p, in the order transformers applies them. The same seed draws the same tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace sluice {

struct Sampling {
  double temperature = 1;         // 0: the most likely token, always
  std::int64_t top_k = 0;         // draw among this many of the most likely; 0: all
  double top_p = 1;               // draw among the most likely that together have this probability; 1: all
  double min_p = 0;               // leave out those less likely than this part of the most likely; 0: none
  double repetition_penalty = 1;  // logits of tokens that are there already are made smaller by it; 1: not
  std::uint64_t seed = 0;
};

// Throws InvalidInput that names the setting and its range.
void require_sound(const Sampling& sampling);

class Sampler {
 public:
  explicit Sampler(const Sampling& sampling);

  // One of logits' indices; ties go to the lower. `document` is what the token continues, of ids that have logits.
  // Throws InvalidInput where logits are not numbers.
  std::int32_t pick(std::span<const float> logits, std::span<const std::int32_t> document = {});

 private:
  struct Candidate {
    std::int32_t id = 0;
    float logit = 0;
    double probability = 0;
  };

  std::span<const float> penalise(std::span<const float> logits, std::span<const std::int32_t> document);
  void keep_candidates(std::span<const float> logits);

  Sampling sampling_;
  Random random_;
  std::vector<float> penalised_;
  std::vector<Candidate> candidates_;  // most likely first
};

}  // namespace sluice
