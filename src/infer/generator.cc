// SPDX-License-Identifier: Apache-2.0
#include "infer/generator.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"

namespace sluice {
namespace {

ForwardPass::Limits pass_limits(std::int64_t capacity_tokens) {
  return {.batch_tokens = std::min(capacity_tokens, Generator::kPromptTokens), .logit_rows = 1};
}

std::uint64_t cache_bytes(const Architecture& arch, DType dtype, std::int64_t capacity_tokens) {
  return static_cast<std::uint64_t>(capacity_tokens * arch.kv_width()) * size_bytes(dtype);
}

}  // namespace

Generator::Generator(Device& device, const ForwardParts& parts, std::int64_t capacity_tokens)
    : device_(device),
      stream_(*parts.stream),
      arch_(*parts.arch),
      capacity_tokens_(capacity_tokens),
      forward_(device, parts, pass_limits(capacity_tokens)) {
  const DType dtype = parts.slices->dtype();
  const std::uint64_t bytes = cache_bytes(arch_, dtype, capacity_tokens);
  const Shape shape{capacity_tokens, arch_.kv_width()};
  memory_.reserve(2 * arch_.layers.size());
  caches_.reserve(arch_.layers.size());
  for (std::size_t idx = 0; idx < arch_.layers.size(); ++idx) {
    memory_.push_back(device.allocate(bytes, "keys"));
    const TensorView k(memory_.back().bytes(), dtype, shape);
    memory_.push_back(device.allocate(bytes, "values"));
    caches_.push_back({.k = k, .v = TensorView(memory_.back().bytes(), dtype, shape)});
  }
}

std::uint64_t Generator::size_bytes(const Architecture& arch, DType dtype, std::int64_t capacity_tokens) {
  const std::uint64_t cache = round_up(cache_bytes(arch, dtype, capacity_tokens), Device::kAlignment);
  const std::int64_t batch_tokens = pass_limits(capacity_tokens).batch_tokens;
  const std::uint64_t batch = round_up(Batch::size_bytes(arch, batch_tokens), Device::kAlignment);
  return ForwardPass::size_bytes(arch, dtype, pass_limits(capacity_tokens)) + 2 * arch.layers.size() * cache + batch;
}

void Generator::read(std::span<const std::int32_t> ids, const std::function<bool()>& interrupted) {
  const auto before = static_cast<std::int64_t>(ids_.size());
  const std::int64_t after = before + static_cast<std::int64_t>(ids.size());
  if (after > capacity_tokens_) {
    throw InvalidInput(fmt::format("{} tokens and {} more do not fit: there is room for {}; ask for fewer tokens",
                                   before, ids.size(), capacity_tokens_));
  }
  // Before any of them is on the stream, which a failure would end for good.
  const auto stranger =
      std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id < 0 || id >= arch_.vocab; });
  if (stranger != ids.end()) {
    throw InvalidInput(
        fmt::format("token {} has the id {}, but the model's vocabulary has ids 0 to {}: use the tokenizer "
                    "that belongs to the model",
                    before + (stranger - ids.begin()), *stranger, arch_.vocab - 1));
  }
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  const bool anew =
      std::any_of(arch_.ropes.begin(), arch_.ropes.end(), [&](const Rope& r) { return turns_anew(r, before, after); });
  if (anew) cached_tokens_ = 0;
  try {
    for (std::int64_t first = cached_tokens_; first < after; first += kPromptTokens) {
      if (interrupted && interrupted()) throw Cancelled("interrupted while the prompt was read");
      read_piece(first, std::min(after - first, kPromptTokens));
    }
    cached_tokens_ = after;
  } catch (...) {
    ids_.resize(static_cast<std::size_t>(before));
    throw;
  }
}

void Generator::read_piece(std::int64_t first, std::int64_t count) {
  const DocumentTokens document{
      .ids = std::span(ids_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
      .past_tokens = first,
      .seq_tokens = static_cast<std::int64_t>(ids_.size())};
  const Batch batch(device_, stream_, arch_, std::span(&document, 1));
  forward_.run(batch, caches_);
  const auto last = forward_.logits(batch, batch.num_tokens() - 1, 1).as<float>();
  logits_.assign(last.begin(), last.end());
}

}  // namespace sluice
