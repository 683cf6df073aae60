// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn.h"

#include <fmt/core.h>

#include "base/error.h"

namespace sluice::cuda {

#define SLUICE_CUDNN_SYMBOL(name) library_.symbol<decltype(::name)>(#name)

Cudnn::Cudnn()
    : library_("cuDNN", {"libcudnn.so.9"}),
      create_descriptor(SLUICE_CUDNN_SYMBOL(cudnnBackendCreateDescriptor)),
      destroy_descriptor(SLUICE_CUDNN_SYMBOL(cudnnBackendDestroyDescriptor)),
      set_attribute(SLUICE_CUDNN_SYMBOL(cudnnBackendSetAttribute)),
      get_attribute(SLUICE_CUDNN_SYMBOL(cudnnBackendGetAttribute)),
      finalize(SLUICE_CUDNN_SYMBOL(cudnnBackendFinalize)),
      execute(SLUICE_CUDNN_SYMBOL(cudnnBackendExecute)),
      set_stream(SLUICE_CUDNN_SYMBOL(cudnnSetStream)),
      version_(SLUICE_CUDNN_SYMBOL(cudnnGetVersion)),
      create_(SLUICE_CUDNN_SYMBOL(cudnnCreate)),
      destroy_(SLUICE_CUDNN_SYMBOL(cudnnDestroy)),
      status_text_(SLUICE_CUDNN_SYMBOL(cudnnGetErrorString)),
      last_error_(SLUICE_CUDNN_SYMBOL(cudnnGetLastErrorString)) {
  require(create_(&handle_), "cudnnCreate");
}

#undef SLUICE_CUDNN_SYMBOL

Cudnn::~Cudnn() { destroy_(handle_); }

void Cudnn::require(cudnnStatus_t status, std::string_view call) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char message[256] = {};
  last_error_(message, sizeof message);
  throw DeviceError(fmt::format("{} failed: {} ({})", call, status_text_(status), message));
}

CudnnDescriptor::CudnnDescriptor(const Cudnn& cudnn, cudnnBackendDescriptorType_t type)
    : cudnn_(&cudnn), descriptor_(nullptr, Destroy{&cudnn}) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  cudnn.require(cudnn.create_descriptor(type, &descriptor), "cudnnBackendCreateDescriptor");
  descriptor_.reset(descriptor);
}

void CudnnDescriptor::set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                              const void* values) const {
  const cudnnStatus_t status = cudnn_->set_attribute(get(), name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) {
    cudnn_->require(status, fmt::format("cudnnBackendSetAttribute of {}", static_cast<int>(name)));
  }
}

void CudnnDescriptor::finalize(std::string_view what) const {
  const cudnnStatus_t status = try_finalize();
  if (status != CUDNN_STATUS_SUCCESS) cudnn_->require(status, fmt::format("cudnnBackendFinalize of {}", what));
}

std::int64_t CudnnDescriptor::get_int64(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0;
  std::int64_t count = 0;
  cudnn_->require(cudnn_->get_attribute(get(), name, CUDNN_TYPE_INT64, 1, &count, &value), "cudnnBackendGetAttribute");
  return value;
}

}  // namespace sluice::cuda
