// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn_rules.h"

#include <fmt/core.h>

namespace sluice::cuda {
namespace {

// cuDNN 9.14 accepts the backward of wider heads and returns wrong gradients, some NaN.
constexpr std::int64_t kMostBackwardHeadDim = 128;
// Bitwise reproducible gradients are verified on Hopper only. Other architectures have other engines for the
// deterministic graph, or need one chosen by hand (compute capability 10.0 and 12.0).
constexpr int kRepeatableMajor = 9;
constexpr std::uint64_t kFirstPackedOnAmpere = 91801;

}  // namespace

std::string cudnn_version_text(std::uint64_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string CudnnRules::why_not(const CudnnRequest& request) const {
  if (request.is_backward && request.head_dim > kMostBackwardHeadDim) {
    return fmt::format("cuDNN computes wrong gradients of heads wider than {}", kMostBackwardHeadDim);
  }
  if (request.is_backward && compute_major != kRepeatableMajor) {
    return fmt::format("gradients of cuDNN are not known to repeat to the bit on compute capability {}.{}",
                       compute_major, compute_minor);
  }
  if (request.is_packed && compute_major == 8 && version < kFirstPackedOnAmpere) {
    return fmt::format("on compute capability {}.{} packed documents need cuDNN {}, this is {}", compute_major,
                       compute_minor, cudnn_version_text(kFirstPackedOnAmpere), cudnn_version_text(version));
  }
  if (is_refused && is_refused(request)) return "a test refuses it";
  return "";
}

}  // namespace sluice::cuda
