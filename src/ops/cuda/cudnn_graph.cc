// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn_graph.h"

#include <utility>

#include "base/error.h"

namespace sluice::cuda {
namespace {

std::int64_t alignment_of(const CudnnTensor& spec) {
  switch (spec.type) {
    case CUDNN_DATA_INT32:
      return 4;
    case CUDNN_DATA_INT64:
      return 8;
    default:
      return 16;
  }
}

std::vector<std::int64_t> as_vector(const CudnnDims& dims) { return {dims.begin(), dims.end()}; }

}  // namespace

// ---- Plans ----

CudnnPlan::CudnnPlan(const Cudnn& cudnn, CudnnDescriptor plan)
    : cudnn_(&cudnn),
      plan_(std::move(plan)),
      workspace_bytes_(static_cast<std::uint64_t>(plan_.get_int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE))) {}

void CudnnPlan::run(const std::vector<CudnnBinding>& bindings, void* workspace) const {
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  for (const CudnnBinding& binding : bindings) {
    ids.push_back(binding.id);
    pointers.push_back(const_cast<void*>(binding.memory));  // the interface has one kind of pointer for both
  }
  const CudnnDescriptor pack(*cudnn_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize("a variant pack");
  cudnn_->require(cudnn_->execute(cudnn_->handle(), plan_.get(), pack.get()), "cudnnBackendExecute");
}

// ---- Graphs ----

CudnnDescriptor& CudnnGraph::descriptor(cudnnBackendDescriptorType_t type) {
  return descriptors_.emplace_back(cudnn_, type);
}

CudnnGraph::Tensor CudnnGraph::tensor(const CudnnTensor& spec) {
  const CudnnDescriptor& made = descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const bool is_virtual = spec.id == 0;
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, is_virtual ? next_id_++ : spec.id);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, spec.type);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, as_vector(spec.dims));
  made.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, as_vector(spec.strides));
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment_of(spec));
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  if (spec.by_value) made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  if (spec.offsets != nullptr) made.set(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, *spec.offsets);
  made.finalize("a tensor");
  return &made;
}

void CudnnGraph::add_operation(const CudnnDescriptor& operation, const char* what) {
  operation.finalize(what);
  operations_.push_back(operation.get());
}

void CudnnGraph::pointwise(const Pointwise& operation, Tensor y) {
  const CudnnDescriptor& how = descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, operation.mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, operation.precision);
  if (operation.axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, operation.axis);
  how.finalize("a pointwise mode");
  const CudnnDescriptor& made = descriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *operation.x);
  if (operation.b != nullptr) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *operation.b);
  if (operation.t != nullptr) made.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *operation.t);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
  add_operation(made, "a pointwise operation");
}

void CudnnGraph::matmul(const Matmul& operation, Tensor c) {
  const CudnnDescriptor& how = descriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.finalize("a matrix product's type");
  const CudnnDescriptor& made = descriptor(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *operation.a);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *operation.b);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c);
  if (operation.m != nullptr) made.set(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, *operation.m);
  if (operation.n != nullptr) made.set(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, *operation.n);
  if (operation.k != nullptr) made.set(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, *operation.k);
  add_operation(made, "a matrix product");
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t how_reduced, Tensor x, Tensor y) {
  const CudnnDescriptor& how = descriptor(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, how_reduced);
  how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.finalize("a reduction's type");
  const CudnnDescriptor& made = descriptor(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y);
  add_operation(made, "a reduction");
}

void CudnnGraph::reshape(Tensor x, Tensor y) {
  const CudnnDescriptor& made = descriptor(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y);
  add_operation(made, "a reshape");
}

std::unique_ptr<CudnnPlan> CudnnGraph::plan() {
  constexpr std::int64_t kMaxConfigs = 8;
  const CudnnDescriptor graph(cudnn_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, cudnn_.handle());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_);
  graph.finalize("a graph");
  const CudnnDescriptor heuristic(cudnn_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  heuristic.finalize("a heuristic");

  std::deque<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t idx = 0; idx < kMaxConfigs; ++idx) {
    raw.push_back(configs.emplace_back(cudnn_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  std::int64_t num_found = 0;
  cudnn_.require(cudnn_.get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                      kMaxConfigs, &num_found, raw.data()),
                 "cudnnBackendGetAttribute of engines");
  cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
  for (std::int64_t idx = 0; idx < num_found && idx < kMaxConfigs; ++idx) {
    CudnnDescriptor plan(cudnn_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, cudnn_.handle());
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[static_cast<std::size_t>(idx)]);
    status = plan.try_finalize();
    if (status == CUDNN_STATUS_SUCCESS) return std::make_unique<CudnnPlan>(cudnn_, std::move(plan));
  }
  cudnn_.require(status, "building a plan of cuDNN");
  throw DeviceError("cuDNN has no plan for this graph");
}

}  // namespace sluice::cuda
