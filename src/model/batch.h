// SPDX-License-Identifier: Apache-2.0
// Documents packed one after the other into one run of tokens, in device memory: what a pass through the model needs to
// know besides weights. Owns that memory. No token is padding.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "model/architecture.h"
#include "model/rope_rows.h"
#include "ops/attention.h"
#include "tensor/tensor_view.h"

namespace sluice {

// A document's tokens that are to be computed; those before them are in a cache already.
struct DocumentTokens {
  std::span<const std::int32_t> ids;
  std::span<const std::int32_t> labels;  // what each token should predict next, or kIgnoreLabel; empty: no loss
  std::int64_t past_tokens = 0;
  // How long the document is, where more of it follows: some rotary scalings depend on it.
  std::optional<std::int64_t> seq_tokens = std::nullopt;
};

class Batch {
 public:
  // The tokens are on the device on return. Throws OutOfBudget where it has no room, InvalidInput where a document is
  // longer than learned positions go.
  // `rows`: of the architecture's ropes; null: they are computed anew.
  Batch(Device& device, Stream& stream, const Architecture& arch, std::span<const DocumentTokens> documents,
        RopeRows* rows = nullptr);

  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t num_labels() const { return num_labels_; }  // those that are not ignored
  const std::vector<AttentionSegment>& segments() const { return segments_; }

  TensorView ids() const { return ids_; }                      // (tokens) i32
  TensorView labels() const { return labels_; }                // (tokens) i32
  TensorView position_rows() const { return position_rows_; }  // (tokens) i32: rows of learned positions
  // (tokens, half) f32: what turns each token.
  TensorView rope_cos(std::size_t rope_idx) const { return rope_cos_[rope_idx]; }
  TensorView rope_sin(std::size_t rope_idx) const { return rope_sin_[rope_idx]; }

  // Device memory that a batch takes.
  static std::uint64_t size_bytes(const Architecture& arch, std::int64_t num_tokens);

 private:
  std::int64_t num_tokens_ = 0;
  std::int64_t num_labels_ = 0;
  std::vector<AttentionSegment> segments_;
  Buffer memory_;
  TensorView ids_, labels_, position_rows_;
  std::vector<TensorView> rope_cos_, rope_sin_;
};

}  // namespace sluice
