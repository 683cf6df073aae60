// SPDX-License-Identifier: Apache-2.0
// Which kinds of attention cuDNN is not asked for, by what is known of its versions and of cards: where it computes
// wrong numbers, or gradients that do not repeat to the bit, it would not refuse by itself. A value; thread-safe.
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
  std::function<bool(const CudnnRequest&)> is_refused;  // by a test; null: nothing is

  // Empty: cuDNN is asked for a plan, and may still refuse. Else why our own kernels compute it.
  std::string why_not(const CudnnRequest& request) const;
};

std::string cudnn_version_text(std::uint64_t version);  // "9.19.0"

}  // namespace sluice::cuda
