// SPDX-License-Identifier: Apache-2.0
// Forward-only pass of tokens through the whole model: hidden states of batches, logits of selected tokens. With KV
// caches, a document continues from their end. ForwardPass owns the activations, allocated once for a token limit. Not
// thread-safe; synchronizes the stream after each slice, so that the slice can be released.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "model/batch.h"
#include "model/block.h"
#include "model/resident_adapter.h"
#include "model/slice_source.h"

namespace sluice {

// Objects that a forward pass uses; borrowed.
struct ForwardParts {
  Stream* stream = nullptr;
  const Architecture* arch = nullptr;
  SliceSource* slices = nullptr;
  const ResidentAdapter* adapter = nullptr;  // null exactly if the architecture has none
};

struct ForwardBatch {
  const Batch* batch = nullptr;
  TensorView hidden;                // (tokens, hidden): overwritten with the last block's output
  std::span<const KvCache> caches;  // one per layer, or empty
};

// Acquires every slice once and applies it to all batches.
void forward_batches(const ForwardParts& parts, std::span<const ForwardBatch> batches, Workspace workspace);
// Workspace for batches of up to `batch_tokens`.
std::uint64_t forward_workspace_bytes(const Architecture& arch, DType dtype, std::int64_t batch_tokens);

class ForwardPass {
 public:
  struct Limits {
    std::int64_t batch_tokens = 0;  // of one run
    std::int64_t logit_rows = 1;    // asked for at once
  };

  // Throws OutOfBudget if the device lacks the memory. The parts outlive this.
  ForwardPass(Device& device, const ForwardParts& parts, Limits limits);

  // `caches`: one per layer, or empty. The returned hidden states (tokens, hidden) are valid until the next run.
  TensorView run(const Batch& batch, std::span<const KvCache> caches = {});
  // (rows, vocab) f32 of `count` of the last run's tokens; good until the next call.
  TensorView logits(const Batch& batch, std::int64_t first_token, std::int64_t count);

  // Device memory that this takes.
  static std::uint64_t size_bytes(const Architecture& arch, DType dtype, Limits limits);

 private:
  ForwardParts parts_;
  Limits limits_;
  Buffer workspace_;
  Buffer hidden_;
  Buffer logits_;
};

}  // namespace sluice
