// SPDX-License-Identifier: Apache-2.0
#include "infer/generator.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"

namespace sluice {
namespace {

ForwardPass::Limits pass_limits(std::int64_t capacity_tokens) {
  return {.batch_tokens = std::min(capacity_tokens, Generator::kPromptTokens),
          .seq_tokens = capacity_tokens,
          .logit_rows = 1};
}

std::uint64_t cache_bytes(const Architecture& arch, DType dtype, std::int64_t capacity_tokens) {
  return static_cast<std::uint64_t>(capacity_tokens * arch.kv_width()) * size_bytes(dtype);
}

}  // namespace

Generator::Generator(Device& device, Stream& stream, const Architecture& arch, SliceSource& slices,
                     std::int64_t capacity_tokens)
    : device_(device),
      stream_(stream),
      arch_(arch),
      capacity_tokens_(capacity_tokens),
      forward_(device, stream, arch, slices, pass_limits(capacity_tokens)) {
  const std::uint64_t bytes = cache_bytes(arch, slices.dtype(), capacity_tokens);
  const Shape shape{capacity_tokens, arch.kv_width()};
  memory_.reserve(2 * arch.layers.size());
  caches_.reserve(arch.layers.size());
  for (std::size_t idx = 0; idx < arch.layers.size(); ++idx) {
    memory_.push_back(device.allocate(bytes, "keys"));
    const TensorView k(memory_.back().bytes(), slices.dtype(), shape);
    memory_.push_back(device.allocate(bytes, "values"));
    caches_.push_back({.k = k, .v = TensorView(memory_.back().bytes(), slices.dtype(), shape)});
  }
}

std::uint64_t Generator::size_bytes(const Architecture& arch, DType dtype, std::int64_t capacity_tokens) {
  const std::uint64_t cache = round_up(cache_bytes(arch, dtype, capacity_tokens), Device::kAlignment);
  const std::uint64_t batch =
      round_up(4 * static_cast<std::uint64_t>(kPromptTokens) * sizeof(std::int32_t), Device::kAlignment);
  return ForwardPass::size_bytes(arch, dtype, pass_limits(capacity_tokens)) + 2 * arch.layers.size() * cache + batch;
}

void Generator::read(std::span<const std::int32_t> ids, const std::function<bool()>& interrupted) {
  if (num_tokens_ + static_cast<std::int64_t>(ids.size()) > capacity_tokens_) {
    throw InvalidInput(fmt::format("{} tokens and {} more do not fit into the {} that were made room for", num_tokens_,
                                   ids.size(), capacity_tokens_));
  }
  // Before any of them is on the stream, which a failure would end for good.
  const auto stranger =
      std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id < 0 || id >= arch_.vocab; });
  if (stranger != ids.end()) {
    throw InvalidInput(
        fmt::format("token {} has the id {}, but the model's vocabulary has ids 0 to {}: use the tokenizer "
                    "that belongs to the model",
                    num_tokens_ + (stranger - ids.begin()), *stranger, arch_.vocab - 1));
  }
  while (!ids.empty()) {
    if (interrupted && interrupted()) throw Cancelled("interrupted while the prompt was read");
    const std::size_t count = std::min(ids.size(), static_cast<std::size_t>(kPromptTokens));
    read_piece(ids.first(count));
    ids = ids.subspan(count);
  }
}

void Generator::read_piece(std::span<const std::int32_t> ids) {
  const DocumentTokens document{.ids = ids, .past_tokens = num_tokens_};
  const Batch batch(device_, stream_, arch_, std::span(&document, 1));
  forward_.run(batch, caches_);
  num_tokens_ += batch.num_tokens();
  const auto last = forward_.logits(batch, batch.num_tokens() - 1, 1).as<float>();
  logits_.assign(last.begin(), last.end());
}

}  // namespace sluice
