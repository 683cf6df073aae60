// SPDX-License-Identifier: Apache-2.0
// For tests: makes kernels take the path of one instruction set that this machine has, until it dies. Not while kernels
// run on other threads.
#pragma once

#include <hwy/targets.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::cpu {

class ForcedTarget {
 public:
  explicit ForcedTarget(std::int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ~ForcedTarget() { hwy::SetSupportedTargetsForTest(0); }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;

  // All that were compiled and that this machine can run, the plain one included.
  static std::vector<std::int64_t> all() {
    std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
    if ((hwy::SupportedTargets() & HWY_STATIC_TARGET) == 0) targets.push_back(HWY_STATIC_TARGET);
    return targets;
  }
  static std::string name(std::int64_t target) { return hwy::TargetName(target); }
};

}  // namespace sluice::cpu
