// SPDX-License-Identifier: Apache-2.0
// What a device that is not the CPU computes with: a method for every operation of this room, called by the operation
// after it has checked its arguments. A method puts its work on the stream, which is one of that device's, and returns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/activation.h"
#include "ops/adamw.h"
#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/gemm.h"
#include "ops/low_rank.h"
#include "ops/norm.h"
#include "ops/quantize.h"
#include "ops/reduce.h"
#include "ops/rotary.h"
#include "ops/sgd.h"
#include "tensor/tensor_view.h"

namespace sluice {

class Kernels {
 public:
  virtual ~Kernels() = default;

  // What was computed in which way, where there are several; for people.
  virtual std::string describe() const = 0;

  virtual void gemm(Stream& stream, const Gemm& args) = 0;

  virtual void attention_forward(Stream& stream, const AttentionForward& args) = 0;
  virtual void attention_backward(Stream& stream, const AttentionBackward& args) = 0;

  // columns.num_runs is never 0.
  virtual void norm_forward(Stream& stream, const NormForward& args) = 0;
  virtual void norm_backward(Stream& stream, const NormBackward& args) = 0;

  virtual void rotary(Stream& stream, const Rotary& args) = 0;

  virtual void activation_forward(Stream& stream, const ActivationForward& args) = 0;
  virtual void activation_backward(Stream& stream, const ActivationBackward& args) = 0;

  virtual void add(Stream& stream, TensorView out, TensorView a, TensorView b) = 0;
  virtual void round_to(Stream& stream, TensorView out, TensorView in) = 0;
  virtual void round_values(Stream& stream, TensorView values) = 0;
  virtual void copy_columns(Stream& stream, Columns to, Columns from, std::int64_t num_cols) = 0;

  virtual void embedding_forward(Stream& stream, const EmbeddingForward& args) = 0;
  virtual void embedding_backward(Stream& stream, const EmbeddingBackward& args) = 0;

  virtual void cross_entropy(Stream& stream, const CrossEntropy& args) = 0;
  virtual void softmax_statistics(Stream& stream, const SoftmaxRange& args) = 0;
  virtual void losses_of_statistics(Stream& stream, TensorView statistics, TensorView labels, TensorView losses) = 0;
  virtual void softmax_gradient(Stream& stream, const SoftmaxGradient& args) = 0;
  virtual void soft_cap(Stream& stream, TensorView values, float cap) = 0;

  virtual void add_column_sums(Stream& stream, TensorView sums, TensorView rows) = 0;
  virtual void sum_of_squares(Stream& stream, TensorView sum, TensorView values) = 0;

  virtual void dropout(Stream& stream, const Dropout& args) = 0;

  virtual void quantize_nf4(Stream& stream, const Nf4Tensor& to, TensorView from) = 0;
  virtual void dequantize_nf4(Stream& stream, const Nf4Dequantize& args) = 0;
  virtual void quantize_int8(Stream& stream, const Int8Rows& to, TensorView from) = 0;
  virtual void dequantize_int8(Stream& stream, TensorView to, const Int8Rows& from) = 0;

  virtual void spread_blocks(Stream& stream, TensorView wide, const std::vector<LowRankBlock>& blocks, float scale) = 0;
  virtual void add_from_blocks(Stream& stream, const std::vector<LowRankBlock>& blocks, TensorView wide,
                               float scale) = 0;

  virtual void adamw(Stream& stream, const AdamW& args) = 0;
  virtual void sgd(Stream& stream, const Sgd& args) = 0;
};

}  // namespace sluice
