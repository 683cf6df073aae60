// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings and the ways they are stretched to longer contexts, by the names that config.json has for them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

enum class RopeScaling : std::uint8_t { kNone, kLinear, kDynamic, kLlama3, kYarn, kLongRope };

struct Rope {
  double theta = 10000;
  std::int64_t rotary_dim = 0;  // columns of a head that are turned; even
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  std::int64_t max_positions = 0;           // kDynamic: beyond it, theta grows with the sequence
  std::int64_t original_max_positions = 0;  // kLlama3, kYarn, kLongRope: what it was trained with
  double low_freq_factor = 1;               // kLlama3
  double high_freq_factor = 4;
  double beta_fast = 32;  // kYarn
  double beta_slow = 1;
  bool truncate = true;
  double attention_factor = 1;        // kYarn, kLongRope: what cosines and sines are multiplied by
  std::vector<double> short_factors;  // kLongRope: rotary_dim / 2 each
  std::vector<double> long_factors;
};

// One angle step for each of rotary_dim / 2 pairs of columns. Some scalings depend on how long the sequence is.
std::vector<float> inverse_frequencies(const Rope& rope, std::int64_t seq_tokens);

// Whether keys that were turned in a sequence of `before` tokens are of no use once it has `after`.
bool turns_anew(const Rope& rope, std::int64_t before, std::int64_t after);

// Of positions [first, first + count) in a sequence of seq_tokens: (count, rotary_dim / 2) each.
void write_rope_rows(const Rope& rope, std::int64_t seq_tokens, std::int64_t first, std::int64_t count,
                     std::span<float> cos, std::span<float> sin);

}  // namespace sluice
