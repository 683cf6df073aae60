// SPDX-License-Identifier: Apache-2.0
// What stands before the first block and after the last: the embedding, and the head with its loss. Like block.h, these
// put work on a stream and return. The head goes over the tokens in chunks, so that logits over a large vocabulary
// never exist for all of them.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "model/architecture.h"
#include "model/batch.h"
#include "model/workspace.h"

namespace sluice {

struct EndPass {
  Stream* stream = nullptr;
  const Architecture* arch = nullptr;
  const Batch* batch = nullptr;
  DType dtype = DType::kBF16;      // of weights and activations
  std::span<std::byte> embedding;  // that slice; the head needs it where it is tied
  std::span<std::byte> head;       // that slice; the embedding does not need it
};

// x (tokens, hidden) = the tokens' embeddings, and those of their positions where they are learned.
void embed_forward(const EndPass& pass, TensorView x);
// Adds to the embedding slice's gradients, f32.
void embed_backward(const EndPass& pass, std::span<std::byte> gradients, TensorView dx);

// Where the head's loss and gradients go. Gradients are f32, laid out as their slices, and added to.
struct HeadGradients {
  TensorView dx;  // (tokens, hidden), overwritten
  std::span<std::byte> head;
  std::span<std::byte> embedding;  // where the head is tied
};

// losses (tokens) f32: every token's, 0 without a label. Gradients are those of the sum of losses times loss_scale.
void head_loss(const EndPass& pass, TensorView x, TensorView losses, float loss_scale, const HeadGradients& gradients,
               Workspace workspace);
std::uint64_t head_loss_workspace_bytes(const Architecture& arch, std::int64_t num_tokens, DType dtype);

// logits (rows, vocab) f32 of some rows of x, soft cap included.
void head_logits(const EndPass& pass, TensorView x, TensorView logits, Workspace workspace);
std::uint64_t head_logits_workspace_bytes(const Architecture& arch, std::int64_t num_rows, DType dtype);

}  // namespace sluice
