// SPDX-License-Identifier: Apache-2.0
// Forward-only loss of tokens. Several batches go through the model together, slice by slice, so that streamed weights
// are read once for all of them. Operations and their order are those of training's evaluation. Owns the batches'
// activations, allocated once. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/forward_pass.h"

namespace sluice {

using PackedDocuments = std::vector<DocumentTokens>;  // one packed batch; attention stays within a document

class LossPass {
 public:
  struct Limits {
    std::int64_t batch_tokens = 0;
    std::int64_t num_batches = 1;  // upper bound per pass over the weights
  };

  // Throws OutOfBudget if the device lacks the memory. Device and parts outlive this.
  LossPass(Device& device, const ForwardParts& parts, Limits limits);

  // The loss of every token of every batch, in order; 0 for a token without a label.
  std::vector<float> run(std::span<const PackedDocuments> batches);

  // Device memory: the part shared by all batches, and the part per batch.
  static std::uint64_t shared_bytes(const Architecture& arch, DType dtype, std::int64_t batch_tokens);
  static std::uint64_t bytes_per_batch(const Architecture& arch, DType dtype, std::int64_t batch_tokens);

 private:
  // Activations of one batch.
  struct Place {
    Buffer hidden;
    Buffer statistics;  // softmax statistics per row
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
