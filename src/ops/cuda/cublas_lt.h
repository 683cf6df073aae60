// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, opened at run time: the functions that are used of it, and RAII for what it hands out. Statuses become
// DeviceError that names the call. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <cublasLt.h>

#include "device/cuda/cuda_library.h"

namespace sluice::cuda {

class CublasLt {
 public:
  // Throws DeviceError where there is no cuBLASLt. On the current card.
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  cublasLtHandle_t handle() const { return handle_; }
  void require(cublasStatus_t status, std::string_view call) const;

 private:
  CudaLibrary library_;

 public:
  decltype(::cublasLtMatmul)* const matmul;
  decltype(::cublasLtMatmulAlgoGetHeuristic)* const get_heuristic;
  decltype(::cublasLtMatmulDescCreate)* const create_desc;
  decltype(::cublasLtMatmulDescDestroy)* const destroy_desc;
  decltype(::cublasLtMatmulDescSetAttribute)* const set_desc;
  decltype(::cublasLtMatrixLayoutCreate)* const create_layout;
  decltype(::cublasLtMatrixLayoutDestroy)* const destroy_layout;
  decltype(::cublasLtMatmulPreferenceCreate)* const create_preference;
  decltype(::cublasLtMatmulPreferenceDestroy)* const destroy_preference;
  decltype(::cublasLtMatmulPreferenceSetAttribute)* const set_preference;

 private:
  decltype(::cublasLtCreate)* const create_;
  decltype(::cublasLtDestroy)* const destroy_;
  decltype(::cublasLtGetStatusString)* const status_text_;
  cublasLtHandle_t handle_ = nullptr;
};

// cuBLASLt as it is found, without a handle.
CudaLibrary open_cublas_lt();
std::string cublas_lt_version(const CudaLibrary& library);

// Objects of cuBLASLt that their destroy function ends.
template <typename Handle>
using CublasLtObject = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t(CUBLASWINAPI*)(Handle)>;

}  // namespace sluice::cuda
