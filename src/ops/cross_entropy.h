// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy of a chunk of tokens, forward and gradient in one pass over the logits. The caller goes over
// the tokens chunk by chunk, so that logits over a large vocabulary never exist whole.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "ops/gemm.h"
#include "tensor/tensor_view.h"

namespace sluice {

inline constexpr std::int32_t kIgnoreLabel = -100;

struct CrossEntropy {
  TensorView logits;     // (tokens, vocab) f32, before the soft cap
  TensorView labels;     // (tokens) i32 in [0, vocab), or kIgnoreLabel: no loss, no gradient; else InvalidInput
  TensorView losses;     // (tokens) f32: each token's loss, 0 where ignored
  TensorView dlogits;    // (tokens, vocab) f32 or bf16; may be logits where f32; default-constructed: not wanted
  float soft_cap = 0;    // logits become cap * tanh(logit / cap) first; 0: none
  float grad_scale = 1;  // what every token's loss counts for in the total, such as 1 / number of labels
};
void cross_entropy(Stream& stream, const CrossEntropy& args);

// The same over a vocabulary that comes in ranges, each with logits of its own: statistics of every range in order,
// then losses, then gradients range by range.
inline constexpr std::int64_t kSoftmaxStatistics = 4;  // of a token: largest logit, the label's, the sum as a double

struct SoftmaxRange {
  TensorView logits;          // (tokens, range) f32, before the soft cap
  TensorView labels;          // (tokens) i32, of all ranges, or kIgnoreLabel
  TensorView statistics;      // (tokens, kSoftmaxStatistics) f32
  std::int64_t first_id = 0;  // of the range
  float soft_cap = 0;
  Into into = Into::kOverwrite;  // statistics; kAdd: after the first range
};
void softmax_statistics(Stream& stream, const SoftmaxRange& args);

// losses (tokens) f32, 0 where ignored.
void losses_of_statistics(Stream& stream, TensorView statistics, TensorView labels, TensorView losses);

struct SoftmaxGradient {
  TensorView logits, labels, statistics;
  TensorView dlogits;  // (tokens, range) f32 or bf16; may be logits where f32
  std::int64_t first_id = 0;
  float soft_cap = 0;
  float grad_scale = 1;
};
void softmax_gradient(Stream& stream, const SoftmaxGradient& args);

// values = cap * tanh(values / cap), f32, in place; for logits that are looked at.
void soft_cap(Stream& stream, TensorView values, float cap);

}  // namespace sluice
