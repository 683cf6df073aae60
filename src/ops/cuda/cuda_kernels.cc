// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cuda_kernels.h"

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include "base/error.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_stream.h"
#include "ops/cuda/activation.h"
#include "ops/cuda/adamw.h"
#include "ops/cuda/cross_entropy.h"
#include "ops/cuda/dropout.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/embedding.h"
#include "ops/cuda/gemm.h"
#include "ops/cuda/low_rank.h"
#include "ops/cuda/norm.h"
#include "ops/cuda/quantize.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/rotary.h"
#include "ops/cuda/sgd.h"

namespace sluice::cuda {
namespace {

[[noreturn]] void not_yet(const char* what) { throw DeviceError(fmt::format("not on the GPU yet: {}", what)); }

// issue(CudaStream&) as one piece of work.
template <typename Issue>
void put(Stream& stream, const char* what, const Issue& issue) {
  auto& on = static_cast<CudaStream&>(stream);
  on.put(what, [&] { issue(on); });
}

CudnnRules rules_for(const CudaDeviceOptions& options) {
  CudnnRules rules{.compute_major = options.pretend.compute_major,
                   .compute_minor = options.pretend.compute_minor,
                   .version = options.pretend.cudnn_version,
                   .is_refused = options.pretend.cudnn_refuses};
  if (rules.compute_major == 0) {
    require(cudaDeviceGetAttribute(&rules.compute_major, cudaDevAttrComputeCapabilityMajor, options.card_idx),
            "cudaDeviceGetAttribute of the compute capability");
    require(cudaDeviceGetAttribute(&rules.compute_minor, cudaDevAttrComputeCapabilityMinor, options.card_idx),
            "cudaDeviceGetAttribute of the compute capability");
  }
  return rules;
}

}  // namespace

CudaKernels::CudaKernels(const CudaDeviceOptions& options) : attentions_(options.attention, rules_for(options)) {}
CudaKernels::~CudaKernels() = default;

std::string CudaKernels::describe() const { return attentions_.describe(); }

std::vector<CudaPath> CudaKernels::paths(const CudaPathQuery& query) const { return attentions_.paths(query); }

void CudaKernels::gemm(Stream& stream, const Gemm& args) {
  put(stream, "gemm", [&](CudaStream& on) { gemms_.run(on, args); });
}
void CudaKernels::attention_forward(Stream& stream, const AttentionForward& args) {
  put(stream, "attention_forward", [&](CudaStream& on) { attentions_.forward(on, args); });
}
void CudaKernels::attention_backward(Stream& stream, const AttentionBackward& args) {
  put(stream, "attention_backward", [&](CudaStream& on) { attentions_.backward(on, args); });
}
void CudaKernels::norm_forward(Stream& stream, const NormForward& args) {
  put(stream, "norm_forward", [&](CudaStream& on) { cuda::norm_forward(on, args); });
}
void CudaKernels::norm_backward(Stream& stream, const NormBackward& args) {
  put(stream, "norm_backward", [&](CudaStream& on) { cuda::norm_backward(on, args); });
}
void CudaKernels::rotary(Stream& stream, const Rotary& args) {
  put(stream, "rotary", [&](CudaStream& on) { cuda::rotary(on, args); });
}
void CudaKernels::activation_forward(Stream& stream, const ActivationForward& args) {
  put(stream, "activation_forward", [&](CudaStream& on) { cuda::activation_forward(on, args); });
}
void CudaKernels::activation_backward(Stream& stream, const ActivationBackward& args) {
  put(stream, "activation_backward", [&](CudaStream& on) { cuda::activation_backward(on, args); });
}
void CudaKernels::add(Stream& stream, TensorView out, TensorView a, TensorView b) {
  put(stream, "add", [&](CudaStream& on) { cuda::add(on, out, a, b); });
}
void CudaKernels::round_to(Stream& stream, TensorView out, TensorView in) {
  put(stream, "round_to", [&](CudaStream& on) { cuda::round_to(on, out, in); });
}
void CudaKernels::round_values(Stream& stream, TensorView values) {
  put(stream, "round_values", [&](CudaStream& on) { cuda::round_values(on, values); });
}
void CudaKernels::copy_columns(Stream& stream, Columns to, Columns from, std::int64_t num_cols) {
  put(stream, "copy_columns", [&](CudaStream& on) { cuda::copy_columns(on, to, from, num_cols); });
}
void CudaKernels::embedding_forward(Stream& stream, const EmbeddingForward& args) {
  put(stream, "embedding_forward", [&](CudaStream& on) { cuda::embedding_forward(on, args); });
}
void CudaKernels::embedding_backward(Stream& stream, const EmbeddingBackward& args) {
  put(stream, "embedding_backward", [&](CudaStream& on) { cuda::embedding_backward(on, args); });
}
void CudaKernels::cross_entropy(Stream& stream, const CrossEntropy& args) {
  put(stream, "cross_entropy", [&](CudaStream& on) { cuda::cross_entropy(on, args); });
}
void CudaKernels::softmax_statistics(Stream& stream, const SoftmaxRange& args) {
  put(stream, "softmax_statistics", [&](CudaStream& on) { cuda::softmax_statistics(on, args); });
}
void CudaKernels::losses_of_statistics(Stream& stream, TensorView statistics, TensorView labels, TensorView losses) {
  put(stream, "losses_of_statistics",
      [&](CudaStream& on) { cuda::losses_of_statistics(on, statistics, labels, losses); });
}
void CudaKernels::softmax_gradient(Stream& stream, const SoftmaxGradient& args) {
  put(stream, "softmax_gradient", [&](CudaStream& on) { cuda::softmax_gradient(on, args); });
}
void CudaKernels::soft_cap(Stream& stream, TensorView values, float cap) {
  put(stream, "soft_cap", [&](CudaStream& on) { cuda::soft_cap(on, values, cap); });
}
void CudaKernels::add_column_sums(Stream& stream, TensorView sums, TensorView rows) {
  put(stream, "add_column_sums", [&](CudaStream& on) { cuda::add_column_sums(on, sums, rows); });
}
void CudaKernels::sum_of_squares(Stream& stream, TensorView sum, TensorView values) {
  put(stream, "sum_of_squares", [&](CudaStream& on) { cuda::sum_of_squares(on, sum, values); });
}
void CudaKernels::dropout(Stream& stream, const Dropout& args) {
  put(stream, "dropout", [&](CudaStream& on) { cuda::dropout(on, args); });
}
void CudaKernels::quantize_nf4(Stream& /*stream*/, const Nf4Tensor& /*to*/, TensorView /*from*/) {
  not_yet("quantize_nf4");
}
void CudaKernels::dequantize_nf4(Stream& stream, const Nf4Dequantize& args) {
  put(stream, "dequantize_nf4", [&](CudaStream& on) { cuda::dequantize_nf4(on, args); });
}
void CudaKernels::quantize_int8(Stream& /*stream*/, const Int8Rows& /*to*/, TensorView /*from*/) {
  not_yet("quantize_int8");
}
void CudaKernels::dequantize_int8(Stream& stream, TensorView to, const Int8Rows& from) {
  put(stream, "dequantize_int8", [&](CudaStream& on) { cuda::dequantize_int8(on, to, from); });
}
void CudaKernels::spread_blocks(Stream& stream, TensorView wide, const std::vector<LowRankBlock>& blocks, float scale) {
  put(stream, "spread_blocks", [&](CudaStream& on) { cuda::spread_blocks(on, wide, blocks, scale); });
}
void CudaKernels::add_from_blocks(Stream& stream, const std::vector<LowRankBlock>& blocks, TensorView wide,
                                  float scale) {
  put(stream, "add_from_blocks", [&](CudaStream& on) { cuda::add_from_blocks(on, blocks, wide, scale); });
}
void CudaKernels::adamw(Stream& stream, const AdamW& args) {
  put(stream, "adamw", [&](CudaStream& on) { cuda::adamw(on, args); });
}
void CudaKernels::sgd(Stream& stream, const Sgd& args) {
  put(stream, "sgd", [&](CudaStream& on) { cuda::sgd(on, args); });
}

}  // namespace sluice::cuda
