// SPDX-License-Identifier: Apache-2.0
// Which drive holds which chunk. Chunks go round the drives in proportion to their weights, as evenly as whole chunks
// allow: weights 2 and 1 give 0 1 0 | 0 1 0 | …  A value; the same weights give the same pattern for ever.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

class StripePattern {
 public:
  static constexpr std::uint32_t kMaxWeight = 1000;

  // One weight a drive, each 1 to kMaxWeight.
  explicit StripePattern(std::vector<std::uint32_t> weights);

  struct Place {
    std::uint32_t drive_idx = 0;
    std::uint64_t chunk_on_drive = 0;
  };
  Place place(std::uint64_t chunk_idx) const;

  // How many of the first `num_chunks` chunks lie on a drive.
  std::uint64_t chunks_on_drive(std::uint32_t drive_idx, std::uint64_t num_chunks) const;

  std::uint64_t round_chunks() const { return round_.size(); }  // after which it repeats
  const std::vector<std::uint32_t>& weights() const { return weights_; }

 private:
  std::vector<std::uint32_t> weights_;
  std::vector<Place> round_;  // one round, chunk_on_drive counted within it
};

// Weights from 1 to 16 that follow measured speeds: the fastest drive gets 16 when they differ, all get 1 when they do
// not (within 10 %).
std::vector<std::uint32_t> weights_from_speeds(const std::vector<double>& gb_per_s);

}  // namespace sluice
