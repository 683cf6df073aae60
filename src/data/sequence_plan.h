// SPDX-License-Identifier: Apache-2.0
// Which documents share a sequence, and in what order sequences come: a pure function of the lengths and a seed.
// Packing is best fit, longest first; equal lengths are tried in random order, so epochs group them differently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sluice {

enum class Packing { kPacked, kOneDocument };

struct SequencePlan {
  std::vector<std::uint32_t> documents;  // indices, sequence after sequence
  std::vector<std::uint32_t> begins;     // of each sequence in documents, and the end
  std::uint64_t num_tokens = 0;

  std::size_t num_sequences() const { return begins.size() - 1; }
  std::span<const std::uint32_t> sequence(std::size_t idx) const {
    return std::span(documents).subspan(begins[idx], begins[idx + 1] - begins[idx]);
  }
  // How much of the sequences is tokens, from 0 to 1.
  double fill(std::size_t sequence_len) const;
};

// Each length is in [1, sequence_len], and there are fewer than 2^32. Throws Cancelled once `interrupted`, unless
// empty, returns true.
SequencePlan plan_sequences(std::span<const std::uint32_t> lengths, std::size_t sequence_len, Packing packing,
                            std::uint64_t seed, const std::function<bool()>& interrupted = {});

}  // namespace sluice
