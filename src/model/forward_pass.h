// SPDX-License-Identifier: Apache-2.0
// Tokens through the whole model, forward only: hidden states of batches, logits of some tokens. With caches, a
// document goes on from where they end. ForwardPass owns the activations' memory, made once for a number of tokens. For
// one thread; waits for the stream after each slice, which is when the slice may be let go.
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

// What batches go through; borrowed.
struct ForwardParts {
  Stream* stream = nullptr;
  const Architecture* arch = nullptr;
  SliceSource* slices = nullptr;
  const ResidentAdapter* adapter = nullptr;  // exactly where the architecture has one
};

struct ForwardBatch {
  const Batch* batch = nullptr;
  TensorView hidden;                // (tokens, hidden): overwritten with the last block's output
  std::span<const KvCache> caches;  // one a layer, or none
};

// Every slice is held once, and used for all batches.
void forward_batches(const ForwardParts& parts, std::span<const ForwardBatch> batches, Workspace workspace);
// Room for batches of so many tokens.
std::uint64_t forward_workspace_bytes(const Architecture& arch, DType dtype, std::int64_t batch_tokens);

class ForwardPass {
 public:
  struct Limits {
    std::int64_t batch_tokens = 0;  // of one run
    std::int64_t logit_rows = 1;    // asked for at once
  };

  // Throws OutOfBudget where the device has no room. The parts outlive this.
  ForwardPass(Device& device, const ForwardParts& parts, Limits limits);

  // One cache a layer, or none. The hidden states (tokens, hidden) that it returns are valid until the next run.
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
