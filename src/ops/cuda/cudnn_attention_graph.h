// SPDX-License-Identifier: Apache-2.0
// Causal attention of bf16 as graphs that cuDNN recognises and computes as a whole; operations and their order are what
// it goes by. Documents are packed: sequence i of a batch begins at its offset into each tensor and has its own length,
// which may be 0; rows outside are not touched. One document that is all there is needs neither offsets nor lengths,
// which is faster (`is_whole`). Gradients repeat to the bit.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>

#include "ops/cuda/cudnn_graph.h"

namespace sluice::cuda {

// Masking what lies beyond a document's length is not needed where queries see no later keys, since the products stop
// there as it is, and costs some 10 % of the forward. But it belongs to the graph that the library's makers check.
inline constexpr bool kMasksPadding = true;

// What a plan is built for. Heads lie side by side in rows, whose lengths are in elements.
struct CudnnAttentionShape {
  std::int64_t num_sequences = 0;  // at most
  std::int64_t num_tokens = 0;     // of the longest, at most
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  // 0: none
  std::int64_t q_row = 0;   // also of dq
  std::int64_t k_row = 0;   // also of dk
  std::int64_t v_row = 0;   // also of dv
  std::int64_t out_row = 0;
  std::int64_t dout_row = 0;  // 0: the forward
  bool is_whole = false;      // one sequence of exactly num_tokens; kStatistics and kDelta are (heads, tokens)

  auto operator<=>(const CudnnAttentionShape&) const = default;  // NOLINT(modernize-use-nullptr): made by the compiler

  bool is_grouped() const { return num_heads != num_kv_heads; }
  bool masks_padding() const { return kMasksPadding && !is_whole; }
  // Whether the backward sums gradients of keys and values in memory that is given to it.
  bool has_full_gradients() const { return is_grouped() && !is_whole; }
};

// Ids of tensors; those of lengths, offsets, kHiddenPadding, kFullDk and kFullDv are not there where is_whole. The
// backward of grouped heads sums gradients of keys and values over kFullDk and kFullDv, for every
// query head, in rows as long as dk's and dv's times the group, at offsets that are so, too.
enum CudnnAttentionId : std::int64_t {
  kNoTensor,
  kQ,
  kK,
  kV,
  kOut,
  kStatistics,  // (tokens, heads) f32, the log-sum-exp
  kDout,
  kDq,
  kDk,
  kDv,
  kDelta,  // as kStatistics
  kFullDk,
  kFullDv,
  kLengths,      // int32, one for each sequence
  kKeyLengths,   // as kLengths
  kQOffsets,     // int64, one for each sequence and the end
  kKOffsets,     // of k and dk
  kVOffsets,     // of v and dv
  kOutOffsets,   // of out
  kDoutOffsets,  // of dout
  kStatisticsOffsets,
  kScale,          // f32 on the host, as all from here
  kHiddenPadding,  // -infinity, as the next two; there where masks_padding()
  kHiddenFuture,
  kHiddenPast,
  kWindow,  // the window as a float; it and kHiddenPast are there where there is a window
  kOne,     // 1.0; in the backward
};

std::unique_ptr<CudnnPlan> plan_attention_forward(const Cudnn& cudnn, const CudnnAttentionShape& shape);
std::unique_ptr<CudnnPlan> plan_attention_backward(const Cudnn& cudnn, const CudnnAttentionShape& shape);

}  // namespace sluice::cuda
