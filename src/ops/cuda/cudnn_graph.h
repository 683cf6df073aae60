// SPDX-License-Identifier: Apache-2.0
// A graph of operations for cuDNN, put together one operation after another, and the plan that computes it. Tensors
// have four dimensions. Those with an id are memory that is given when the plan runs; the rest exist inside alone.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "ops/cuda/cudnn.h"

namespace sluice::cuda {

using CudnnDims = std::array<std::int64_t, 4>;

struct CudnnTensor {
  std::int64_t id = 0;  // 0: inside the graph alone
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  CudnnDims dims = {1, 1, 1, 1};
  CudnnDims strides = {1, 1, 1, 1};
  const CudnnDescriptor* offsets = nullptr;  // where each of dims[0] begins, in elements; null: at its stride
  bool by_value = false;                     // a scalar in host memory, read when the plan is put on a stream
};

// Memory of a tensor when a plan runs.
struct CudnnBinding {
  std::int64_t id = 0;
  const void* memory = nullptr;
};

class CudnnPlan {
 public:
  CudnnPlan(const Cudnn& cudnn, CudnnDescriptor plan);

  std::uint64_t workspace_bytes() const { return workspace_bytes_; }
  // On the handle's stream. Binds exactly the tensors with ids.
  void run(const std::vector<CudnnBinding>& bindings, void* workspace) const;

 private:
  const Cudnn* cudnn_;
  CudnnDescriptor plan_;
  std::uint64_t workspace_bytes_;
};

class CudnnGraph {
 public:
  using Tensor = const CudnnDescriptor*;

  explicit CudnnGraph(const Cudnn& cudnn) : cudnn_(cudnn) {}
  CudnnGraph(const CudnnGraph&) = delete;
  CudnnGraph& operator=(const CudnnGraph&) = delete;

  Tensor tensor(const CudnnTensor& spec);

  struct Pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    Tensor x = nullptr;
    Tensor b = nullptr;  // the second operand
    Tensor t = nullptr;  // what a selection goes by
    std::int64_t axis = -1;
  };
  void pointwise(const Pointwise& operation, Tensor y);

  struct Matmul {
    Tensor a, b;
    Tensor m = nullptr, n = nullptr, k = nullptr;  // how many of each there are, for each of dims[0]
  };
  void matmul(const Matmul& operation, Tensor c);
  void reduce(cudnnReduceTensorOp_t how, Tensor x, Tensor y);
  void reshape(Tensor x, Tensor y);

  // The first of what the library thinks best that can be built; throws DeviceError where there is none.
  std::unique_ptr<CudnnPlan> plan();

 private:
  CudnnDescriptor& descriptor(cudnnBackendDescriptorType_t type);
  void add_operation(const CudnnDescriptor& operation, const char* what);

  const Cudnn& cudnn_;
  std::deque<CudnnDescriptor> descriptors_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::int64_t next_id_ = 1000;  // of tensors that have none of their own
};

}  // namespace sluice::cuda
