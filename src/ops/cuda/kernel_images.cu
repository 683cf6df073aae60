// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "ops/cuda/kernel_images.h"

namespace sluice::cuda {
namespace {

// One stands for all: they are compiled alike.
__global__ void probe_kernel() {}

}  // namespace

std::string why_no_kernels(int card_idx) {
  cudaError_t error = cudaSetDevice(card_idx);
  cudaFuncAttributes attributes{};
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&probe_kernel));
  if (error == cudaSuccess) return "";
  static_cast<void>(cudaGetLastError());
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
    return "this build has kernels for compute capability " SLUICE_COMPUTE_CAPABILITIES
           " alone: take a release, or build Sluice on this machine (docs/cards.md)";
  }
  return cudaGetErrorString(error);
}

}  // namespace sluice::cuda
