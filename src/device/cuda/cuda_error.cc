// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_error.h"

#include <fmt/core.h>

#include "base/error.h"

namespace sluice::cuda {

void throw_cuda_error(cudaError_t error, std::string_view call) {
  static_cast<void>(cudaGetLastError());  // an error that can be cleared is cleared by being reported
  throw DeviceError(fmt::format("{} failed: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error)));
}

}  // namespace sluice::cuda
