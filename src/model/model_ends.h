// SPDX-License-Identifier: Apache-2.0
// What stands before the first block and after the last: the embedding, and the head with its loss. Both go range by
// range over the vocabulary, as their slices do. Like block.h, these put work on a stream and return. The head goes
// over the tokens in chunks, so that logits over a large vocabulary never exist for all of them.
//
//   one range        head_loss()                                   logits once, their gradient at once
//   losses alone     head_statistics() of each
//   several ranges   head_statistics() of each, in order; then     the softmax needs all ranges before any gradient,
//                    head_gradients() of each; then head_end()     so logits are computed twice
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "model/architecture.h"
#include "model/batch.h"
#include "model/block.h"
#include "model/workspace.h"

namespace sluice {

struct EndPass {
  Stream* stream = nullptr;
  const Architecture* arch = nullptr;
  const Batch* batch = nullptr;
  DType dtype = DType::kBF16;  // of weights and activations
};

// x (tokens, hidden): the embeddings of those tokens whose ids are in the range; each range is needed once.
void embed_rows(const EndPass& pass, std::int64_t range_idx, std::span<std::byte> weights, TensorView x);
// x += those of the positions; after all ranges.
void embed_positions(const EndPass& pass, std::span<std::byte> weights, TensorView x);
// Add to the slice's gradients, f32.
void embed_rows_backward(const EndPass& pass, std::int64_t range_idx, std::span<std::byte> gradients, TensorView dx);
void embed_positions_backward(const EndPass& pass, std::span<std::byte> gradients, TensorView dx);

// The final norm's slice, and that of a range of the head: its own, or the embedding's where it is tied.
struct HeadSlices {
  std::span<std::byte> norm;
  std::span<std::byte> rows;
};

// losses (tokens) f32: every token's, 0 without a label. Gradients are those of the sum of losses times loss_scale:
// added to f32 `gradients`, laid out as the slices; dx (tokens, hidden; may be x) is overwritten. Here and below, empty
// gradients are not wanted.
void head_loss(const EndPass& pass, const HeadSlices& weights, const HeadSlices& gradients, TensorView x, TensorView dx,
               TensorView losses, float loss_scale, Workspace workspace);

// What several ranges leave for one another.
struct HeadState {
  TensorView statistics;  // (tokens, kSoftmaxStatistics) f32
  TensorView d_normed;    // (tokens, hidden) f32; several ranges alone have it
};
HeadState take_head_state(const Architecture& arch, std::int64_t num_tokens, Workspace& workspace);

void head_statistics(const EndPass& pass, std::int64_t range_idx, const HeadSlices& weights, TensorView x,
                     const HeadState& state, Workspace workspace);
// Adds to the range's gradients and to d_normed, which the first range overwrites.
void head_gradients(const EndPass& pass, std::int64_t range_idx, const HeadSlices& weights,
                    std::span<std::byte> row_gradients, TensorView x, const HeadState& state, float loss_scale,
                    Workspace workspace);
// Losses, dx and the final norm's gradients. The norm's slices alone are needed.
void head_end(const EndPass& pass, std::span<std::byte> norm, std::span<std::byte> norm_gradients, TensorView x,
              TensorView dx, TensorView losses, const HeadState& state, Workspace workspace);

// Of any of the three above, or of head_loss().
std::uint64_t head_workspace_bytes(const Architecture& arch, const BlockSize& size);

// A range's columns of logits (rows, vocab) f32, soft cap included, of some rows of x.
void head_logits(const EndPass& pass, std::int64_t range_idx, const HeadSlices& weights, TensorView x,
                 TensorView logits, Workspace workspace);
std::uint64_t head_logits_workspace_bytes(const Architecture& arch, std::int64_t num_rows, DType dtype);

}  // namespace sluice
