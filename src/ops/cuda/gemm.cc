// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's matrices are by columns, ours by rows: it sees each as its transpose, and computes cᵀ = op(b)ᵀ op(a)ᵀ. So
// its first operand is b, and what it calls rows of the result are our columns.
#include "ops/cuda/gemm.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/units.h"
#include "device/cuda/cuda_device.h"
#include "ops/cuda/finish_product.h"

namespace sluice::cuda {
namespace {

cudaDataType_t as_cuda(DType dtype) { return dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F; }

std::uint32_t alignment_of(const TensorView& view) {
  const auto address = reinterpret_cast<std::uintptr_t>(view.bytes().data());
  std::uint32_t alignment = 256;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

template <typename Handle, typename Destroy>
CublasLtObject<Handle> own(Handle handle, Destroy* destroy) {
  return CublasLtObject<Handle>(handle, destroy);
}

}  // namespace

struct Gemms::Plan {
  CublasLtObject<cublasLtMatmulDesc_t> desc;
  CublasLtObject<cublasLtMatrixLayout_t> b, a, c;
  cublasLtMatmulAlgo_t algo;
  std::uint64_t workspace_bytes = 0;
};

Gemms::Gemms() = default;
Gemms::~Gemms() = default;

Gemms::Plan& Gemms::plan_for(const GemmKey& key, const void* bias, std::uint64_t workspace_bytes) {
  if (const auto found = plans_.find(key); found != plans_.end()) return *found->second;
  if (!library_) library_ = std::make_unique<CublasLt>();
  const CublasLt& lt = *library_;

  cublasLtMatmulDesc_t raw_desc = nullptr;
  lt.require(lt.create_desc(&raw_desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  auto desc = own(raw_desc, lt.destroy_desc);
  const auto set_desc = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    lt.require(lt.set_desc(desc.get(), attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  };
  const auto op_of = [](Transpose transpose) { return transpose == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set_desc(CUBLASLT_MATMUL_DESC_TRANSA, op_of(key.transpose_b));
  set_desc(CUBLASLT_MATMUL_DESC_TRANSB, op_of(key.transpose_a));
  if (key.adds_bias) {
    set_desc(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set_desc(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, as_cuda(key.operands));
    set_desc(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);  // the choice goes by it too; every use has its own
  }

  // Of a matrix (rows, cols) by rows.
  const auto layout_of = [&](DType dtype, std::int64_t rows, std::int64_t cols) {
    cublasLtMatrixLayout_t layout = nullptr;
    lt.require(lt.create_layout(&layout, as_cuda(dtype), static_cast<std::uint64_t>(cols),
                                static_cast<std::uint64_t>(rows), cols),
               "cublasLtMatrixLayoutCreate");
    return own(layout, lt.destroy_layout);
  };
  const bool a_is_km = key.transpose_a == Transpose::kYes;
  const bool b_is_nk = key.transpose_b == Transpose::kYes;
  auto a = layout_of(key.operands, a_is_km ? key.k : key.m, a_is_km ? key.m : key.k);
  auto b = layout_of(key.operands, b_is_nk ? key.n : key.k, b_is_nk ? key.k : key.n);
  auto c = layout_of(key.result, key.m, key.n);

  cublasLtMatmulPreference_t raw_preference = nullptr;
  lt.require(lt.create_preference(&raw_preference), "cublasLtMatmulPreferenceCreate");
  const auto preference = own(raw_preference, lt.destroy_preference);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    lt.require(lt.set_preference(preference.get(), attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  // Where k is split, the parts are kept apart in f32 and added up in order afterwards.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.c_alignment);

  cublasLtMatmulHeuristicResult_t best{};
  int num_found = 0;
  const cublasStatus_t status = lt.get_heuristic(lt.handle(), desc.get(), b.get(), a.get(), c.get(), c.get(),
                                                 preference.get(), 1, &best, &num_found);
  if (status != CUBLAS_STATUS_SUCCESS || num_found == 0) {
    throw DeviceError(fmt::format("cuBLASLt has no way to multiply ({}, {}) by ({}, {}) in {}", key.m, key.k, key.k,
                                  key.n, name(key.operands)));
  }
  auto plan = std::make_unique<Plan>(Plan{.desc = std::move(desc),
                                          .b = std::move(b),
                                          .a = std::move(a),
                                          .c = std::move(c),
                                          .algo = best.algo,
                                          .workspace_bytes = best.workspaceSize});
  return *plans_.emplace(key, std::move(plan)).first->second;
}

void Gemms::run(CudaStream& stream, const Gemm& args) {
  const GemmExtents extents = gemm_extents(args);
  if (extents.m == 0 || extents.n == 0) return;
  if (extents.k == 0) {
    finish_product(stream, {.c = args.c, .bias = args.bias, .into = args.into});
    return;
  }
  // cuBLASLt adds a bias of the result's type, which it loads in vectors, and makes no bf16 of f32.
  const bool adds_bias = has_bias(args) && args.c.dtype() == args.a.dtype() && alignment_of(args.bias) >= 16;
  const bool finishes_bias = has_bias(args) && !adds_bias;
  const bool makes_detour =
      args.c.dtype() == DType::kBF16 && (args.a.dtype() == DType::kF32 || finishes_bias);  // by f32 in scratch memory
  const GemmKey key{.m = extents.m,
                    .n = extents.n,
                    .k = extents.k,
                    .transpose_a = args.transpose_a,
                    .transpose_b = args.transpose_b,
                    .operands = args.a.dtype(),
                    .result = makes_detour ? DType::kF32 : args.c.dtype(),
                    .adds_bias = adds_bias,
                    .into = makes_detour ? Into::kOverwrite : args.into,
                    .a_alignment = alignment_of(args.a),
                    .b_alignment = alignment_of(args.b),
                    .c_alignment = makes_detour ? 256 : alignment_of(args.c)};

  const std::scoped_lock lock(mutex_);
  const void* const bias = args.bias.bytes().data();
  const Plan& plan = plan_for(key, bias, std::min(kWorkspaceBytes, stream.device().scratch().size_bytes()));
  if (adds_bias) {
    library_->require(library_->set_desc(plan.desc.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                      "cublasLtMatmulDescSetAttribute of the bias");
  }
  const std::uint64_t product_at = round_up(plan.workspace_bytes, Device::kAlignment);
  const std::uint64_t product_bytes =
      makes_detour ? static_cast<std::uint64_t>(extents.m * extents.n) * sizeof(float) : 0;
  const Scratch scratch = stream.scratch(product_at + product_bytes, "a matrix product");
  float* const product = reinterpret_cast<float*>(scratch.as<std::byte>() + product_at);
  void* const c = makes_detour ? static_cast<void*>(product) : args.c.bytes().data();
  const float alpha = 1;
  const float beta = key.into == Into::kAdd ? 1 : 0;
  library_->require(library_->matmul(library_->handle(), plan.desc.get(), &alpha, args.b.bytes().data(), plan.b.get(),
                                     args.a.bytes().data(), plan.a.get(), &beta, c, plan.c.get(), c, plan.c.get(),
                                     &plan.algo, scratch.bytes().data(), plan.workspace_bytes, stream.handle()),
                    "cublasLtMatmul");
  if (makes_detour) {
    finish_product(
        stream, {.c = args.c, .product = product, .bias = finishes_bias ? args.bias : TensorView(), .into = args.into});
  } else if (finishes_bias) {
    finish_product(stream, {.c = args.c, .bias = args.bias, .into = Into::kAdd});
  }
}

}  // namespace sluice::cuda
