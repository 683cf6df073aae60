// SPDX-License-Identifier: Apache-2.0
// Results of CUDA's runtime as exceptions. DeviceError says the call and what CUDA says of it.
#pragma once

#include <string_view>

#include <cuda_runtime_api.h>

namespace sluice::cuda {

[[noreturn]] void throw_cuda_error(cudaError_t error, std::string_view call);

// `call` is what was called, and where it helps what for: "cudaMalloc of the arena".
inline void require(cudaError_t error, std::string_view call) {
  if (error != cudaSuccess) throw_cuda_error(error, call);
}

}  // namespace sluice::cuda
