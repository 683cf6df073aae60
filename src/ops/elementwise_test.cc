// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

#include <cmath>
#include <limits>

#include "base/bf16.h"
#include "ops/test_tensors.h"

namespace sluice {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the tests' own vocabulary

TEST(RoundValues, AreTheNumbersThatBf16Holds) {
  on_every_target([] {
    for (const std::int64_t size : {0, 1, 7, 255, 256, 257, 40000}) {
      SCOPED_TRACE(size);
      const TestTensor values = random_tensor(DType::kF32, {size}, 1);
      const std::span<float> all = values.view().as<float>();
      // Ties on either side, what rounds up to infinity, zeros, and what is no number.
      const std::vector<float> special{1 + 1.0F / 256,
                                       1 + 3.0F / 256,
                                       std::numeric_limits<float>::max(),
                                       -0.0F,
                                       std::numeric_limits<float>::infinity(),
                                       std::numeric_limits<float>::denorm_min()};
      for (std::size_t idx = 0; idx < special.size() && idx < all.size(); ++idx) all[idx] = special[idx];
      if (all.size() > 10) all[10] = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> expected(all.begin(), all.end());
      for (float& value : expected) value = to_float(to_bf16(value));
      run_on_cpu(2, [&](Stream& stream) { round_values(stream, values); });
      for (std::size_t idx = 0; idx < expected.size(); ++idx) {
        if (std::isnan(expected[idx])) {
          EXPECT_TRUE(std::isnan(all[idx])) << idx;
        } else {
          EXPECT_EQ(all[idx], expected[idx]) << idx;
          EXPECT_EQ(std::signbit(all[idx]), std::signbit(expected[idx])) << idx;
        }
      }
    }
  });
}

}  // namespace
}  // namespace sluice
