// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/cuda/cudnn_rules.h"

namespace sluice::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr CudnnRequest kForwardWhole{.is_backward = false, .is_packed = false, .head_dim = 128};
constexpr CudnnRequest kForwardPacked{.is_backward = false, .is_packed = true, .head_dim = 128};
constexpr CudnnRequest kBackwardWhole{.is_backward = true, .is_packed = false, .head_dim = 128};
constexpr CudnnRequest kBackwardPacked{.is_backward = true, .is_packed = true, .head_dim = 128};

CudnnRules rules(int major, int minor, std::uint64_t version) {
  return {.compute_major = major, .compute_minor = minor, .version = version, .is_refused = nullptr};
}

TEST(CudnnRules, LeaveHopperToCudnn) {
  for (const CudnnRequest& request : {kForwardWhole, kForwardPacked, kBackwardWhole, kBackwardPacked}) {
    EXPECT_THAT(rules(9, 0, 91400).why_not(request), IsEmpty());
  }
}

TEST(CudnnRules, KeepWideGradientsFromCudnnEverywhere) {
  CudnnRequest wide = kBackwardPacked;
  wide.head_dim = 256;
  EXPECT_THAT(rules(9, 0, 91900).why_not(wide), HasSubstr("wider than 128"));
  wide.is_backward = false;
  EXPECT_THAT(rules(9, 0, 91900).why_not(wide), IsEmpty());
}

TEST(CudnnRules, TakeGradientsFromCudnnOnlyWhereTheyRepeat) {
  struct Capability {
    int major, minor;
  };
  for (const Capability& of : {Capability{8, 0}, {8, 6}, {8, 9}, {10, 0}, {12, 0}}) {
    const CudnnRules of_card = rules(of.major, of.minor, 91900);
    EXPECT_THAT(of_card.why_not(kBackwardWhole), HasSubstr("repeat to the bit"));
    EXPECT_THAT(of_card.why_not(kBackwardPacked), HasSubstr("repeat to the bit"));
    EXPECT_THAT(of_card.why_not(kForwardPacked), IsEmpty());
  }
}

TEST(CudnnRules, PackOnAmpereFrom9_18_1On) {
  EXPECT_THAT(rules(8, 9, 91800).why_not(kForwardPacked), HasSubstr("cuDNN 9.18.1, this is 9.18.0"));
  EXPECT_THAT(rules(8, 9, 91800).why_not(kForwardWhole), IsEmpty());
  EXPECT_THAT(rules(8, 9, 91801).why_not(kForwardPacked), IsEmpty());
  EXPECT_THAT(rules(12, 0, 91400).why_not(kForwardPacked), IsEmpty());
}

TEST(CudnnRules, RefuseWhatATestRefuses) {
  CudnnRules of_card = rules(9, 0, 91900);
  of_card.is_refused = [](const CudnnRequest& request) { return request.is_packed; };
  EXPECT_THAT(of_card.why_not(kForwardPacked), HasSubstr("a test"));
  EXPECT_THAT(of_card.why_not(kForwardWhole), IsEmpty());
}

}  // namespace
}  // namespace sluice::cuda
