// SPDX-License-Identifier: Apache-2.0
// Every operation on a card: a method puts the kernels of the namesake in sluice::cuda on the stream, as one piece of
// work. It owns what kernels share: libraries opened at run time and what was chosen for shapes met before.
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/cuda/attention.h"
#include "ops/cuda/gemm.h"
#include "ops/kernels.h"

namespace sluice::cuda {

class CudaKernels : public Kernels {
 public:
  // Constructed with the options' card as the current CUDA device.
  explicit CudaKernels(const CudaDeviceOptions& options);
  ~CudaKernels() override;

  std::string describe() const override;
  std::vector<CudaPath> paths(const CudaPathQuery& query) const;

  void gemm(Stream& stream, const Gemm& args) override;
  void attention_forward(Stream& stream, const AttentionForward& args) override;
  void attention_backward(Stream& stream, const AttentionBackward& args) override;
  void norm_forward(Stream& stream, const NormForward& args) override;
  void norm_backward(Stream& stream, const NormBackward& args) override;
  void rotary(Stream& stream, const Rotary& args) override;
  void activation_forward(Stream& stream, const ActivationForward& args) override;
  void activation_backward(Stream& stream, const ActivationBackward& args) override;
  void add(Stream& stream, TensorView out, TensorView a, TensorView b) override;
  void round_to(Stream& stream, TensorView out, TensorView in) override;
  void round_values(Stream& stream, TensorView values) override;
  void copy_columns(Stream& stream, Columns to, Columns from, std::int64_t num_cols) override;
  void embedding_forward(Stream& stream, const EmbeddingForward& args) override;
  void embedding_backward(Stream& stream, const EmbeddingBackward& args) override;
  void cross_entropy(Stream& stream, const CrossEntropy& args) override;
  void softmax_statistics(Stream& stream, const SoftmaxRange& args) override;
  void losses_of_statistics(Stream& stream, TensorView statistics, TensorView labels, TensorView losses) override;
  void softmax_gradient(Stream& stream, const SoftmaxGradient& args) override;
  void soft_cap(Stream& stream, TensorView values, float cap) override;
  void add_column_sums(Stream& stream, TensorView sums, TensorView rows) override;
  void sum_of_squares(Stream& stream, TensorView sum, TensorView values) override;
  void dropout(Stream& stream, const Dropout& args) override;
  void quantize_nf4(Stream& stream, const Nf4Tensor& to, TensorView from) override;
  void dequantize_nf4(Stream& stream, const Nf4Dequantize& args) override;
  void quantize_int8(Stream& stream, const Int8Rows& to, TensorView from) override;
  void dequantize_int8(Stream& stream, TensorView to, const Int8Rows& from) override;
  void spread_blocks(Stream& stream, TensorView wide, const std::vector<LowRankBlock>& blocks, float scale) override;
  void add_from_blocks(Stream& stream, const std::vector<LowRankBlock>& blocks, TensorView wide, float scale) override;
  void adamw(Stream& stream, const AdamW& args) override;
  void sgd(Stream& stream, const Sgd& args) override;

 private:
  Gemms gemms_;
  Attentions attentions_;
};

}  // namespace sluice::cuda
