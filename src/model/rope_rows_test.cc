// SPDX-License-Identifier: Apache-2.0
#include "model/rope_rows.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(RopeRows, AreThoseOfEveryPositionHoweverTheyAreAskedFor) {
  const Rope plain{.rotary_dim = 8};
  Rope dynamic = plain;
  dynamic.scaling = RopeScaling::kDynamic;
  dynamic.factor = 2;
  dynamic.max_positions = 16;
  Rope long_rope = plain;
  long_rope.scaling = RopeScaling::kLongRope;
  long_rope.original_max_positions = 16;
  long_rope.short_factors = {1, 1, 2, 3};
  long_rope.long_factors = {2, 3, 4, 5};
  const std::vector<Rope> ropes{plain, dynamic, long_rope};
  RopeRows rows(ropes);
  struct Part {
    std::int64_t first, count, seq_tokens;
  };
  // Within what is kept, beyond it, across its end, and far beyond what ever is.
  for (const Part& part : {Part{0, 5, 5}, Part{2, 2, 5}, Part{3, 9, 40}, Part{0, 0, 5}, Part{1 << 20, 3, 1 << 21}}) {
    for (std::size_t rope_idx = 0; rope_idx < ropes.size(); ++rope_idx) {
      const auto size = static_cast<std::size_t>(part.count * 4);
      std::vector<float> cos(size), sin(size), expected_cos(size), expected_sin(size);
      rows.write(rope_idx, part.seq_tokens, part.first, part.count, cos, sin);
      write_rope_rows(ropes[rope_idx], part.seq_tokens, part.first, part.count, expected_cos, expected_sin);
      EXPECT_EQ(cos, expected_cos) << part.first;
      EXPECT_EQ(sin, expected_sin) << part.first;
    }
  }
}

}  // namespace
}  // namespace sluice
