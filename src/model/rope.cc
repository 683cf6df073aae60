// SPDX-License-Identifier: Apache-2.0
#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "base/check.h"

namespace sluice {
namespace {

// As transformers computes them: in float, rounded after every step, since over a long context an angle tells such
// roundings apart.

// Long wavelengths are stretched by the factor, short ones kept, those between blended.
float llama3_frequency(const Rope& rope, float frequency) {
  // torch divides a number by a tensor in two steps.
  const float wavelength = (1 / frequency) * static_cast<float>(2 * std::numbers::pi);
  const auto original = static_cast<double>(rope.original_max_positions);
  const auto factor = static_cast<float>(rope.factor);
  if (wavelength > static_cast<float>(original / rope.low_freq_factor)) return frequency / factor;
  if (wavelength < static_cast<float>(original / rope.high_freq_factor)) return frequency;
  const float kept = ((1 / wavelength) * static_cast<float>(original) - static_cast<float>(rope.low_freq_factor)) /
                     static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  const float stretched = (1 - kept) * frequency / factor;
  const float same = kept * frequency;
  return stretched + same;
}

struct YarnRange {
  double low = 0;
  double high = 0;
};

// The pairs of columns between which frequencies go from kept to stretched: those that turn beta_fast and beta_slow
// times over the original context.
YarnRange yarn_range(const Rope& rope) {
  const auto dim = static_cast<double>(rope.rotary_dim);
  const auto pair_that_turns = [&](double turns) {
    return dim * std::log(static_cast<double>(rope.original_max_positions) / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = pair_that_turns(rope.beta_fast);
  double high = pair_that_turns(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  return {low, high};
}

double dynamic_theta(const Rope& rope, std::int64_t seq_tokens) {
  if (seq_tokens <= rope.max_positions) return rope.theta;
  const auto dim = static_cast<double>(rope.rotary_dim);
  const float times = static_cast<float>(rope.factor) * static_cast<float>(seq_tokens);
  const float grown = times / static_cast<float>(rope.max_positions) - static_cast<float>(rope.factor - 1);
  return static_cast<float>(rope.theta) * std::pow(grown, static_cast<float>(dim / (dim - 2)));
}

float yarn_frequency(const Rope& rope, const YarnRange& range, std::int64_t pair_idx, float wave) {
  const float kept = 1 / wave;
  const float stretched = 1 / (static_cast<float>(rope.factor) * wave);
  const float along =
      (static_cast<float>(pair_idx) - static_cast<float>(range.low)) / static_cast<float>(range.high - range.low);
  const float share = 1 - std::clamp(along, 0.0F, 1.0F);
  const float from_stretched = stretched * (1 - share);
  const float from_kept = kept * share;
  return from_stretched + from_kept;
}

}  // namespace

std::vector<float> inverse_frequencies(const Rope& rope, std::int64_t seq_tokens) {
  CHECK(rope.rotary_dim > 0 && rope.rotary_dim % 2 == 0, "pairs of columns");
  const std::int64_t half = rope.rotary_dim / 2;
  const double theta = rope.scaling == RopeScaling::kDynamic ? dynamic_theta(rope, seq_tokens) : rope.theta;
  const YarnRange yarn = rope.scaling == RopeScaling::kYarn ? yarn_range(rope) : YarnRange{};
  std::vector<float> frequencies(static_cast<std::size_t>(half));
  for (std::int64_t idx = 0; idx < half; ++idx) {
    const auto at = static_cast<std::size_t>(idx);
    const float exponent = static_cast<float>(2 * idx) / static_cast<float>(rope.rotary_dim);
    const auto wave = static_cast<float>(std::pow(static_cast<double>(static_cast<float>(theta)), exponent));
    float& frequency = frequencies[at];
    frequency = 1 / wave;
    switch (rope.scaling) {
      case RopeScaling::kNone:
      case RopeScaling::kDynamic:
        break;
      case RopeScaling::kLinear:
        frequency /= static_cast<float>(rope.factor);
        break;
      case RopeScaling::kLlama3:
        frequency = llama3_frequency(rope, frequency);
        break;
      case RopeScaling::kYarn:
        frequency = yarn_frequency(rope, yarn, idx, wave);
        break;
      case RopeScaling::kLongRope: {
        const auto& factors = seq_tokens > rope.original_max_positions ? rope.long_factors : rope.short_factors;
        CHECK(factors.size() == frequencies.size(), "a factor for every pair");
        frequency = 1 / (static_cast<float>(factors[at]) * wave);
        break;
      }
    }
  }
  return frequencies;
}

bool turns_anew(const Rope& rope, std::int64_t before, std::int64_t after) {
  return rope.scaling == RopeScaling::kLongRope && before > 0 && before <= rope.original_max_positions &&
         after > rope.original_max_positions;
}

void write_rope_rows(const Rope& rope, std::int64_t seq_tokens, std::int64_t first, std::int64_t count,
                     std::span<float> cos, std::span<float> sin) {
  const std::vector<float> frequencies = inverse_frequencies(rope, seq_tokens);
  CHECK(cos.size() == frequencies.size() * static_cast<std::size_t>(count) && cos.size() == sin.size(), "room for all");
  const auto attention_factor = static_cast<float>(rope.attention_factor);
  std::size_t at = 0;
  for (std::int64_t position = first; position < first + count; ++position) {
    for (const float frequency : frequencies) {
      // The angle is rounded to float first, as transformers does; its cosine then is exact to a float.
      const float angle = static_cast<float>(position) * frequency;
      cos[at] = static_cast<float>(std::cos(static_cast<double>(angle))) * attention_factor;
      sin[at] = static_cast<float>(std::sin(static_cast<double>(angle))) * attention_factor;
      ++at;
    }
  }
}

}  // namespace sluice
