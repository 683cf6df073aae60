// SPDX-License-Identifier: Apache-2.0
// One transformer block, forward and backward, as its Architecture says. A pass puts work on the stream and returns;
// what it is given stays alive until the stream has passed. The backward computes a block again from its input, unless
// the forward was given memory to keep its intermediates in. The MLP goes over the tokens in chunks, so that its wide
// middle need not exist for all of them.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "model/architecture.h"
#include "model/batch.h"
#include "model/block_adapter.h"
#include "model/slice_layout.h"
#include "model/workspace.h"

namespace sluice {

// Keys and values of a document's earlier tokens, for one layer. Rows beyond those in use are free.
struct KvCache {
  TensorView k;  // (capacity, kv_width)
  TensorView v;
};

struct BlockPass {
  Stream* stream = nullptr;
  const Architecture* arch = nullptr;
  std::int64_t layer_idx = 0;
  const Batch* batch = nullptr;
  DType dtype = DType::kBF16;    // of weights and activations
  std::span<std::byte> weights;  // the slice
  AdapterPass adapter;           // where the architecture has one
  // Where the forward leaves what the backward would compute again, block_kept_bytes() or more. Empty: nowhere. The
  // backward takes what the forward of the same batch left, once: it computes in place.
  std::span<std::byte> kept;
  // Where attention's output and its sums lie, attention_kept_bytes() or more: the forward leaves them there, and the
  // backward computes all but them again. Empty: nowhere.
  std::span<std::byte> attention;
};

// y = block(x); both (tokens, hidden), y may be x. With a cache, the batch is one document whose earlier tokens are in
// it; its new keys and values are added, and nothing is kept for a backward.
void block_forward(const BlockPass& pass, TensorView x, TensorView y, Workspace workspace,
                   const KvCache* cache = nullptr);

// From dy, the gradient with respect to y: dx (may be dy; default-constructed: not wanted) is overwritten, the
// gradients of what is trained are added to `gradients`: f32, laid out as trained_layout() says.
void block_backward(const BlockPass& pass, std::span<std::byte> gradients, TensorView x, TensorView dy, TensorView dx,
                    Workspace workspace);

// What the memory of a pass follows, besides its architecture.
struct BlockSize {
  std::int64_t num_tokens = 0;
  DType dtype = DType::kBF16;
  DeviceKind device = DeviceKind::kCpu;
};
std::uint64_t block_kept_bytes(const Architecture& arch, const BlockSize& size);
std::uint64_t attention_kept_bytes(const Architecture& arch, const BlockSize& size);
// With or without memory to keep intermediates in.
std::uint64_t block_forward_workspace_bytes(const Architecture& arch, const BlockSize& size);
std::uint64_t block_backward_workspace_bytes(const Architecture& arch, const BlockSize& size);

}  // namespace sluice
