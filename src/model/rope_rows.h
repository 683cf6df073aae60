// SPDX-License-Identifier: Apache-2.0
// Cosines and sines of a model's positions, kept once they have been computed: every batch has the same ones. One
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/rope.h"

namespace sluice {

class RopeRows {
 public:
  explicit RopeRows(const std::vector<Rope>& ropes) : ropes_(ropes), kept_(ropes.size()) {}

  // As write_rope_rows() of that rope. Positions far beyond the usual are computed each time.
  void write(std::size_t rope_idx, std::int64_t seq_tokens, std::int64_t first, std::int64_t count,
             std::span<float> cos, std::span<float> sin);

 private:
  struct Kept {
    std::int64_t count = 0;
    std::vector<float> cos, sin;
  };

  std::vector<Rope> ropes_;
  std::vector<Kept> kept_;  // of the first positions
};

}  // namespace sluice
