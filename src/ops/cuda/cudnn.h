// SPDX-License-Identifier: Apache-2.0
// cuDNN, opened at run time: its graph interface, and RAII for descriptors and plans. Statuses become DeviceError that
// names the call and says what the library says of it. A handle is one thread's at a time; the rest is thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <cudnn_graph.h>

#include "device/cuda/cuda_library.h"

namespace sluice::cuda {

class Cudnn {
 public:
  // Throws DeviceError where there is no cuDNN. On the current card.
  Cudnn();
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  cudnnHandle_t handle() const { return handle_; }
  std::uint64_t version_number() const { return version_(); }  // 91900 is 9.19.0
  void require(cudnnStatus_t status, std::string_view call) const;

 private:
  CudaLibrary library_;

 public:
  decltype(::cudnnBackendCreateDescriptor)* const create_descriptor;
  decltype(::cudnnBackendDestroyDescriptor)* const destroy_descriptor;
  decltype(::cudnnBackendSetAttribute)* const set_attribute;
  decltype(::cudnnBackendGetAttribute)* const get_attribute;
  decltype(::cudnnBackendFinalize)* const finalize;
  decltype(::cudnnBackendExecute)* const execute;
  decltype(::cudnnSetStream)* const set_stream;

 private:
  decltype(::cudnnGetVersion)* const version_;
  decltype(::cudnnCreate)* const create_;
  decltype(::cudnnDestroy)* const destroy_;
  decltype(::cudnnGetErrorString)* const status_text_;
  decltype(::cudnnGetLastErrorString)* const last_error_;
  cudnnHandle_t handle_ = nullptr;
};

// A backend descriptor: attributes are set, then it is finalized.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const Cudnn& cudnn, cudnnBackendDescriptorType_t type);

  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

  template <typename T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<T>& values) const {
    static_assert(!std::is_same_v<T, bool>, "booleans are set alone");
    set_raw(name, type, static_cast<std::int64_t>(values.size()), values.data());
  }
  template <typename T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, T value) const {
    set_raw(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) const {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.get());
  }
  cudnnStatus_t try_finalize() const { return cudnn_->finalize(get()); }
  void finalize(std::string_view what) const;
  std::int64_t get_int64(cudnnBackendAttributeName_t name) const;

 private:
  struct Destroy {
    const Cudnn* cudnn;
    void operator()(cudnnBackendDescriptor_t descriptor) const { cudnn->destroy_descriptor(descriptor); }
  };
  void set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
               const void* values) const;

  const Cudnn* cudnn_;
  std::unique_ptr<std::remove_pointer_t<cudnnBackendDescriptor_t>, Destroy> descriptor_;
};

}  // namespace sluice::cuda
