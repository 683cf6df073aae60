// SPDX-License-Identifier: Apache-2.0
// One document continued token by token, its keys and values kept on the device. For one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "device/device.h"
#include "infer/sampler.h"
#include "model/forward_pass.h"
#include "model/slice_source.h"

namespace sluice {

class Generator {
 public:
  // Throws OutOfBudget if the device lacks memory for KV caches of capacity_tokens. Device and parts outlive this.
  Generator(Device& device, const ForwardParts& parts, std::int64_t capacity_tokens);

  // Reads more of the document; the prompt goes in pieces of kPromptTokens. Throws InvalidInput where an id is not in
  // the vocabulary or the capacity is exceeded. Before each piece, `interrupted` may end it with Cancelled. What fails
  // leaves the document as it was.
  void read(std::span<const std::int32_t> ids, const std::function<bool()>& interrupted = nullptr);
  // Logits of what follows the last token read: (vocab) f32; good until the next call.
  std::span<const float> logits() const { return logits_; }
  std::span<const std::int32_t> ids() const { return ids_; }  // of all that was read

  // Device memory that this takes.
  static std::uint64_t size_bytes(const Architecture& arch, DType dtype, std::int64_t capacity_tokens);
  static constexpr std::int64_t kPromptTokens = 512;

 private:
  void read_piece(std::int64_t first, std::int64_t count);

  Device& device_;
  Stream& stream_;
  const Architecture& arch_;
  std::int64_t capacity_tokens_;
  std::vector<std::int32_t> ids_;
  std::int64_t cached_tokens_ = 0;  // of them; fewer than all only where starting anew has failed
  ForwardPass forward_;
  std::vector<Buffer> memory_;
  std::vector<KvCache> caches_;
  std::vector<float> logits_;
};

}  // namespace sluice
