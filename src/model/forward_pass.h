// SPDX-License-Identifier: Apache-2.0
// Tokens through the whole model, without a way back: hidden states of a batch, logits of some of its tokens. With
// caches, a document goes on from where they end. Owns the activations' memory, made once for a number of tokens. For
// one thread; waits for the stream after each slice, which is when the slice may be let go.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "model/batch.h"
#include "model/block.h"
#include "model/slice_source.h"

namespace sluice {

class ForwardPass {
 public:
  struct Limits {
    std::int64_t batch_tokens = 0;  // of one run
    std::int64_t logit_rows = 1;    // asked for at once
  };

  // Throws OutOfBudget where the device has no room. What is given outlives this.
  ForwardPass(Device& device, Stream& stream, const Architecture& arch, SliceSource& slices, Limits limits);

  // One cache a layer, or none. What it gives back is good until the next run: (tokens, hidden).
  TensorView run(const Batch& batch, std::span<const KvCache> caches = {});
  // (rows, vocab) f32 of `count` of the last run's tokens; good until the next call.
  TensorView logits(const Batch& batch, std::int64_t first_token, std::int64_t count);

  // Device memory that this takes.
  static std::uint64_t size_bytes(const Architecture& arch, DType dtype, Limits limits);

 private:
  Stream& stream_;
  const Architecture& arch_;
  SliceSource& slices_;
  Limits limits_;
  Buffer workspace_;
  Buffer hidden_;
  Buffer logits_;
};

}  // namespace sluice
