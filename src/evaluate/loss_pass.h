// SPDX-License-Identifier: Apache-2.0
// The loss of tokens, forward only. Several batches go through the model together, slice by slice, so that streamed
// weights are read once for all of them. The operations and their order are those of training's evaluation. Owns the
// batches' activations, made once. For one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/forward_pass.h"

namespace sluice {

using PackedDocuments = std::vector<DocumentTokens>;  // computed together; attention never crosses two

class LossPass {
 public:
  struct Limits {
    std::int64_t batch_tokens = 0;
    std::int64_t num_batches = 1;  // that go through the model together
  };

  // Throws OutOfBudget where the device has no room. Device and parts outlive this.
  LossPass(Device& device, const ForwardParts& parts, Limits limits);

  // Of every token of every batch, in order: 0 without a label.
  std::vector<float> run(std::span<const PackedDocuments> batches);

  // Device memory that this takes: for all, and for each batch.
  static std::uint64_t shared_bytes(const Architecture& arch, DType dtype, std::int64_t batch_tokens);
  static std::uint64_t bytes_per_batch(const Architecture& arch, DType dtype, std::int64_t batch_tokens);

 private:
  // Of one batch.
  struct Place {
    Buffer hidden;
    Buffer statistics;  // the softmax's
    Buffer losses;
  };

  void head(std::span<const ForwardBatch> batches);

  Device& device_;
  ForwardParts parts_;
  Limits limits_;
  Buffer workspace_;
  std::vector<Place> places_;
  RopeRows rope_rows_;
};

}  // namespace sluice
