// SPDX-License-Identifier: Apache-2.0
#include "model/forward_pass.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"
#include "model/model_ends.h"

namespace sluice {
namespace {

std::uint64_t workspace_bytes(const Architecture& arch, DType dtype, const ForwardPass::Limits& limits) {
  return std::max(forward_workspace_bytes(arch, dtype, limits.batch_tokens),
                  head_logits_workspace_bytes(arch, limits.logit_rows, dtype));
}

std::uint64_t hidden_bytes(const Architecture& arch, DType dtype, const ForwardPass::Limits& limits) {
  return static_cast<std::uint64_t>(limits.batch_tokens * arch.hidden) * size_bytes(dtype);
}

std::uint64_t logit_bytes(const Architecture& arch, const ForwardPass::Limits& limits) {
  return static_cast<std::uint64_t>(limits.logit_rows * arch.vocab) * sizeof(float);
}

}  // namespace

std::uint64_t forward_workspace_bytes(const Architecture& arch, DType dtype, std::int64_t batch_tokens) {
  return block_forward_workspace_bytes(arch, {.num_tokens = batch_tokens, .dtype = dtype});
}

void forward_batches(const ForwardParts& parts, std::span<const ForwardBatch> batches, Workspace workspace) {
  const Architecture& arch = *parts.arch;
  Stream& stream = *parts.stream;
  CHECK(arch.adapter.exists() == (parts.adapter != nullptr),
        "adapter given without the architecture having one, or the reverse");
  const DType dtype = parts.slices->dtype();
  const auto hold = [&](std::size_t slice_idx, const auto& body) {
    const SliceHold slice = parts.slices->hold(slice_idx);
    for (const ForwardBatch& batch : batches) body(batch, slice.bytes());
    stream.synchronize();
  };
  const auto ends = [&](const ForwardBatch& batch) {
    return EndPass{.stream = &stream, .arch = &arch, .batch = batch.batch, .dtype = dtype};
  };
  for (std::int64_t range_idx = 0; range_idx < arch.num_vocab_ranges(); ++range_idx) {
    hold(embedding_slice(range_idx), [&](const ForwardBatch& batch, std::span<std::byte> slice) {
      embed_rows(ends(batch), range_idx, slice, batch.hidden);
    });
  }
  if (arch.learned_positions > 0) {
    hold(positions_slice(arch), [&](const ForwardBatch& batch, std::span<std::byte> slice) {
      embed_positions(ends(batch), slice, batch.hidden);
    });
  }
  for (std::int64_t layer_idx = 0; layer_idx < arch.num_layers(); ++layer_idx) {
    hold(block_slice(arch, layer_idx), [&](const ForwardBatch& batch, std::span<std::byte> slice) {
      BlockPass pass{.stream = &stream,
                     .arch = &arch,
                     .layer_idx = layer_idx,
                     .batch = batch.batch,
                     .dtype = dtype,
                     .weights = slice};
      if (parts.adapter != nullptr) pass.adapter = {.weights = parts.adapter->weights(layer_idx)};
      CHECK(batch.caches.empty() || batch.caches.size() == arch.layers.size(),
            "the number of KV caches differs from the number of layers");
      const KvCache* cache = batch.caches.empty() ? nullptr : &batch.caches[static_cast<std::size_t>(layer_idx)];
      block_forward(pass, batch.hidden, batch.hidden, workspace, cache);
    });
  }
}

ForwardPass::ForwardPass(Device& device, const ForwardParts& parts, Limits limits)
    : parts_(parts),
      limits_(limits),
      workspace_(device.allocate(workspace_bytes(*parts.arch, parts.slices->dtype(), limits), "a block's activations")),
      hidden_(device.allocate(hidden_bytes(*parts.arch, parts.slices->dtype(), limits), "hidden states")),
      logits_(device.allocate(logit_bytes(*parts.arch, limits), "logits")) {}

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
  const DType dtype = parts_.slices->dtype();
  const Shape shape{batch.num_tokens(), parts_.arch->hidden};
  const TensorView x(
      hidden_.bytes().first(static_cast<std::uint64_t>(shape.num_elements()) * sluice::size_bytes(dtype)), dtype,
      shape);
  const ForwardBatch all{.batch = &batch, .hidden = x, .caches = caches};
  forward_batches(parts_, std::span(&all, 1), Workspace(workspace_.bytes()));
  return x;
}

TensorView ForwardPass::logits(const Batch& batch, std::int64_t first_token, std::int64_t count) {
  const Architecture& arch = *parts_.arch;
  CHECK(count <= limits_.logit_rows, "the pass was made for this many rows of logits");
  const DType dtype = parts_.slices->dtype();
  const Shape shape{batch.num_tokens(), arch.hidden};
  const TensorView x(hidden_.bytes(), dtype, shape);
  const TensorView logits(logits_.bytes(), DType::kF32, {count, arch.vocab});
  const EndPass ends{.stream = parts_.stream, .arch = &arch, .batch = &batch, .dtype = dtype};
  const SliceHold norm = parts_.slices->hold(final_norm_slice(arch));
  for (std::int64_t range_idx = 0; range_idx < arch.num_vocab_ranges(); ++range_idx) {
    const SliceHold rows = parts_.slices->hold(head_slice(arch, range_idx));
    head_logits(ends, range_idx, {.norm = norm.bytes(), .rows = rows.bytes()}, x.rows(first_token, count), logits,
                Workspace(workspace_.bytes()));
    parts_.stream->synchronize();
  }
  return logits;
}

}  // namespace sluice
