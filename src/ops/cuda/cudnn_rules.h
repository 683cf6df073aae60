// SPDX-License-Identifier: Apache-2.0
// Kinds of attention not offered to cuDNN, by version and card: those it accepts but computes wrongly, or with
// gradients that are not bitwise reproducible. A value type; thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "device/cuda_plugin.h"

namespace sluice::cuda {

struct CudnnRules {
  int compute_major = 0;
  int compute_minor = 0;
  std::uint64_t version = 0;                            // 91900 is 9.19.0
  std::function<bool(const CudnnRequest&)> is_refused;  // set by tests; null: no further refusals

  // Empty: ask cuDNN for a plan, which it may still refuse. Otherwise the reason to use our own kernels.
  std::string why_not(const CudnnRequest& request) const;
};

std::string cudnn_version_text(std::uint64_t version);  // "9.19.0"

}  // namespace sluice::cuda
