// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy of a chunk of tokens, forward and gradient in one pass over the logits. The caller goes over
// the tokens chunk by chunk, so that logits over a large vocabulary never exist whole.
#pragma once

#include <cstdint>

#include "device/device.h"
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

// values = cap * tanh(values / cap), f32, in place; for logits that are looked at.
void soft_cap(Stream& stream, TensorView values, float cap);

}  // namespace sluice
