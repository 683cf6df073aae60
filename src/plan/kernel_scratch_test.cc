// SPDX-License-Identifier: Apache-2.0
#include "plan/kernel_scratch.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace sluice {
namespace {

TEST(KernelScratch, HasSquaresOnlyWhereCudnnComputesGradients) {
  Architecture arch;
  arch.hidden = 4096;
  arch.num_heads = 32;
  arch.num_kv_heads = 8;
  arch.head_dim = 128;
  constexpr std::int64_t kTokens = 4096;
  const std::uint64_t squares = 32 * kTokens * kTokens * 2;
  EXPECT_GT(kernel_scratch_bytes(arch, {kTokens, kTokens, true}, 24 * kGiB), squares);
  EXPECT_LT(kernel_scratch_bytes(arch, {kTokens, kTokens, false}, 24 * kGiB), 128 * kMiB);
}

}  // namespace
}  // namespace sluice
