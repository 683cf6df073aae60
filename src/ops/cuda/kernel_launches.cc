// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/kernel_launches.h"

namespace sluice::cuda {
namespace {

// Constructed on first use, as static objects of other translation units add to it.
std::vector<KernelLaunch>& listed_launches() {
  static std::vector<KernelLaunch> all;
  return all;
}

}  // namespace

const std::vector<KernelLaunch>& kernel_launches() { return listed_launches(); }

ListedLaunch::ListedLaunch(const KernelLaunch& launch) { listed_launches().push_back(launch); }

}  // namespace sluice::cuda
