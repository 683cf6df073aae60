// SPDX-License-Identifier: Apache-2.0
#include <hwy/highway.h>

#include <gtest/gtest.h>

#include "ops/attention_case.h"

namespace sluice {
namespace {

// Every instruction set that kernels are compiled for and this machine has, the plain one included.
std::vector<std::int64_t> targets() {
  std::vector<std::int64_t> all = hwy::SupportedAndGeneratedTargets();
  if (std::find(all.begin(), all.end(), HWY_STATIC_TARGET) == all.end()) all.push_back(HWY_STATIC_TARGET);
  return all;
}

class AttentionOn : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};
INSTANTIATE_TEST_SUITE_P(Targets, AttentionOn, testing::ValuesIn(targets()),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)); });

// Few rows, then blocks of them; sizes that no vector divides.
TEST_P(AttentionOn, IsAsDefined) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t num_queries : {3, 150}) {
      expect_as_defined(
          {.shape = {.num_heads = 3, .num_kv_heads = 1, .head_dim = 43, .scale = 0.15F, .window = 270, .soft_cap = 3},
           .segments = {{.q_first = 0, .q_count = num_queries, .k_first = 1, .k_count = 299}},
           .num_queries = num_queries,
           .num_keys = 300,
           .dtype = dtype,
           .gradient_dtype = dtype});
    }
  }
}

}  // namespace
}  // namespace sluice
