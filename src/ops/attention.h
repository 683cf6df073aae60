// SPDX-License-Identifier: Apache-2.0
// Causal attention that never holds a score matrix: blocks of queries meet blocks of keys with a running softmax, and
// the backward recomputes scores from the log-sum-exp of every row. Memory beyond the arguments is a few blocks for
// each thread; in the backward also a float for each head and token, in generation a small part of the cache. Documents
// packed into one sequence are segments and never see each other. Arithmetic is in float; tensors are f32 or bf16, each
// as it likes but for what is said below. Results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "tensor/tensor_view.h"

namespace sluice {

// Heads side by side in the columns of a wider row: column first_col + head * head_dim + i.
struct HeadColumns {
  TensorView rows;  // (tokens, width) f32 or bf16
  std::int64_t first_col = 0;
};

// Queries [q_first, q_first + q_count) attend keys [k_first, k_first + k_count), aligned at the end: the last query
// sees every key, the one before it all but the last, and so on. q_count <= k_count.
struct AttentionSegment {
  std::int64_t q_first = 0;
  std::int64_t q_count = 0;
  std::int64_t k_first = 0;
  std::int64_t k_count = 0;
};

inline constexpr std::int64_t kMaxHeadDim = 256;

struct AttentionShape {
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;  // divides num_heads; query head h reads kv head h / (num_heads / num_kv_heads)
  std::int64_t head_dim = 0;      // at most kMaxHeadDim
  float scale = 1;
  std::int64_t window = 0;  // a query sees itself and window - 1 keys before it; 0: all before it
  float soft_cap = 0;       // scores become cap * tanh(score / cap); 0: none
};

struct AttentionForward {
  AttentionShape shape;
  std::vector<AttentionSegment> segments;  // disjoint in queries; keys may be shared
  HeadColumns q, k, v;
  TensorView out;          // (tokens, num_heads * head_dim), q's dtype
  TensorView log_sum_exp;  // (num_heads, tokens) f32, for the backward; default-constructed: not wanted
};
void attention_forward(Stream& stream, const AttentionForward& args);

struct AttentionBackward {
  AttentionShape shape;
  std::vector<AttentionSegment> segments;  // disjoint in queries and in keys
  HeadColumns q, k, v;
  TensorView out;          // (tokens, num_heads * head_dim), what the forward gave
  TensorView log_sum_exp;  // (num_heads, tokens) f32
  TensorView dout;         // as out
  HeadColumns dq, dk, dv;  // overwritten for the rows and columns of the segments; 0 for keys that nobody saw
};
void attention_backward(Stream& stream, const AttentionBackward& args);

}  // namespace sluice
