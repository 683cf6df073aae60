// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cublas_lt.h"

#include <fmt/core.h>

#include "base/error.h"

namespace sluice::cuda {

CudaLibrary open_cublas_lt() { return CudaLibrary("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}); }

std::string cublas_lt_version(const CudaLibrary& library) {
  const std::size_t version = library.symbol<decltype(::cublasLtGetVersion)>("cublasLtGetVersion")();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

CublasLt::CublasLt()
    : library_(open_cublas_lt()),
      matmul(library_.symbol<decltype(::cublasLtMatmul)>("cublasLtMatmul")),
      get_heuristic(library_.symbol<decltype(::cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic")),
      create_desc(library_.symbol<decltype(::cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate")),
      destroy_desc(library_.symbol<decltype(::cublasLtMatmulDescDestroy)>("cublasLtMatmulDescDestroy")),
      set_desc(library_.symbol<decltype(::cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute")),
      create_layout(library_.symbol<decltype(::cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate")),
      destroy_layout(library_.symbol<decltype(::cublasLtMatrixLayoutDestroy)>("cublasLtMatrixLayoutDestroy")),
      create_preference(library_.symbol<decltype(::cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate")),
      destroy_preference(
          library_.symbol<decltype(::cublasLtMatmulPreferenceDestroy)>("cublasLtMatmulPreferenceDestroy")),
      set_preference(
          library_.symbol<decltype(::cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute")),
      create_(library_.symbol<decltype(::cublasLtCreate)>("cublasLtCreate")),
      destroy_(library_.symbol<decltype(::cublasLtDestroy)>("cublasLtDestroy")),
      status_text_(library_.symbol<decltype(::cublasLtGetStatusString)>("cublasLtGetStatusString")) {
  require(create_(&handle_), "cublasLtCreate");
}

CublasLt::~CublasLt() { destroy_(handle_); }

void CublasLt::require(cublasStatus_t status, std::string_view call) const {
  if (status != CUBLAS_STATUS_SUCCESS) throw DeviceError(fmt::format("{} failed: {}", call, status_text_(status)));
}

}  // namespace sluice::cuda
