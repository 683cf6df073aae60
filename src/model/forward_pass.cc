// SPDX-License-Identifier: Apache-2.0
#include "model/forward_pass.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"
#include "model/model_ends.h"

namespace sluice {
namespace {

std::uint64_t workspace_bytes(const Architecture& arch, DType dtype, const ForwardPass::Limits& limits) {
  return std::max(block_forward_workspace_bytes(arch, {.num_tokens = limits.batch_tokens, .dtype = dtype}),
                  head_logits_workspace_bytes(arch, limits.logit_rows, dtype));
}

std::uint64_t hidden_bytes(const Architecture& arch, DType dtype, const ForwardPass::Limits& limits) {
  return static_cast<std::uint64_t>(limits.batch_tokens * arch.hidden) * size_bytes(dtype);
}

std::uint64_t logit_bytes(const Architecture& arch, const ForwardPass::Limits& limits) {
  return static_cast<std::uint64_t>(limits.logit_rows * arch.vocab) * sizeof(float);
}

}  // namespace

ForwardPass::ForwardPass(Device& device, Stream& stream, const Architecture& arch, SliceSource& slices, Limits limits)
    : stream_(stream),
      arch_(arch),
      slices_(slices),
      limits_(limits),
      workspace_(device.allocate(workspace_bytes(arch, slices.dtype(), limits), "a block's activations")),
      hidden_(device.allocate(hidden_bytes(arch, slices.dtype(), limits), "hidden states")),
      logits_(device.allocate(logit_bytes(arch, limits), "logits")) {}

std::uint64_t ForwardPass::size_bytes(const Architecture& arch, DType dtype, Limits limits) {
  std::uint64_t total = 0;
  const auto add = [&](std::uint64_t bytes) { total += round_up(bytes, Device::kAlignment); };
  add(workspace_bytes(arch, dtype, limits));
  add(hidden_bytes(arch, dtype, limits));
  add(logit_bytes(arch, limits));
  return total;
}

TensorView ForwardPass::run(const Batch& batch, std::span<const KvCache> caches) {
  CHECK(batch.num_tokens() <= limits_.batch_tokens, "the pass was made for this many tokens");
  CHECK(caches.empty() || caches.size() == arch_.layers.size(), "a cache for every layer");
  const DType dtype = slices_.dtype();
  const Shape shape{batch.num_tokens(), arch_.hidden};
  const TensorView x(
      hidden_.bytes().first(static_cast<std::uint64_t>(shape.num_elements()) * sluice::size_bytes(dtype)), dtype,
      shape);
  const EndPass ends{.stream = &stream_, .arch = &arch_, .batch = &batch, .dtype = dtype};
  for (std::int64_t range_idx = 0; range_idx < arch_.num_vocab_ranges(); ++range_idx) {
    const SliceHold slice = slices_.hold(embedding_slice(range_idx));
    embed_rows(ends, range_idx, slice.bytes(), x);
    stream_.synchronize();
  }
  if (arch_.learned_positions > 0) {
    const SliceHold slice = slices_.hold(positions_slice(arch_));
    embed_positions(ends, slice.bytes(), x);
    stream_.synchronize();
  }
  for (std::int64_t layer_idx = 0; layer_idx < arch_.num_layers(); ++layer_idx) {
    const SliceHold slice = slices_.hold(block_slice(arch_, layer_idx));
    const BlockPass pass{.stream = &stream_,
                         .arch = &arch_,
                         .layer_idx = layer_idx,
                         .batch = &batch,
                         .dtype = dtype,
                         .weights = slice.bytes()};
    const KvCache* cache = caches.empty() ? nullptr : &caches[static_cast<std::size_t>(layer_idx)];
    block_forward(pass, x, x, Workspace(workspace_.bytes()), cache);
    stream_.synchronize();
  }
  return x;
}

TensorView ForwardPass::logits(const Batch& batch, std::int64_t first_token, std::int64_t count) {
  CHECK(count <= limits_.logit_rows, "the pass was made for this many rows of logits");
  const DType dtype = slices_.dtype();
  const Shape shape{batch.num_tokens(), arch_.hidden};
  const TensorView x(hidden_.bytes(), dtype, shape);
  const TensorView logits(logits_.bytes(), DType::kF32, {count, arch_.vocab});
  const EndPass ends{.stream = &stream_, .arch = &arch_, .batch = &batch, .dtype = dtype};
  const SliceHold norm = slices_.hold(final_norm_slice(arch_));
  for (std::int64_t range_idx = 0; range_idx < arch_.num_vocab_ranges(); ++range_idx) {
    const SliceHold rows = slices_.hold(head_slice(arch_, range_idx));
    head_logits(ends, range_idx, {.norm = norm.bytes(), .rows = rows.bytes()}, x.rows(first_token, count), logits,
                Workspace(workspace_.bytes()));
    stream_.synchronize();
  }
  return logits;
}

}  // namespace sluice
