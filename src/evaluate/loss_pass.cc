// SPDX-License-Identifier: Apache-2.0
#include "evaluate/loss_pass.h"

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "base/units.h"
#include "model/model_ends.h"
#include "model/slice_layout.h"
#include "ops/cross_entropy.h"

namespace sluice {
namespace {

std::uint64_t loss_workspace_bytes(const Architecture& arch, DType dtype, std::int64_t batch_tokens) {
  return std::max(forward_workspace_bytes(arch, dtype, batch_tokens),
                  head_workspace_bytes(arch, {.num_tokens = batch_tokens, .dtype = dtype}));
}

std::uint64_t hidden_state_bytes(const Architecture& arch, DType dtype, std::int64_t batch_tokens) {
  return static_cast<std::uint64_t>(batch_tokens * arch.hidden) * size_bytes(dtype);
}

std::uint64_t statistics_bytes(std::int64_t batch_tokens) {
  return static_cast<std::uint64_t>(batch_tokens * kSoftmaxStatistics) * sizeof(float);
}

std::uint64_t token_loss_bytes(std::int64_t batch_tokens) {
  return static_cast<std::uint64_t>(batch_tokens) * sizeof(float);
}

// A view of the first rows of a buffer sized for the largest batch.
TensorView first_rows(const Buffer& memory, DType dtype, const Shape& shape) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(shape.num_elements()) * size_bytes(dtype);
  return {memory.bytes().first(bytes), dtype, shape};
}

}  // namespace

LossPass::LossPass(Device& device, const ForwardParts& parts, Limits limits)
    : device_(device),
      parts_(parts),
      limits_(limits),
      workspace_(device.allocate(loss_workspace_bytes(*parts.arch, parts.slices->dtype(), limits.batch_tokens),
                                 "a block's activations")),
      rope_rows_(parts.arch->ropes) {
  const DType dtype = parts.slices->dtype();
  for (std::int64_t idx = 0; idx < limits.num_batches; ++idx) {
    places_.push_back(
        {.hidden = device.allocate(hidden_state_bytes(*parts.arch, dtype, limits.batch_tokens), "hidden states"),
         .statistics = device.allocate(statistics_bytes(limits.batch_tokens), "the head's statistics"),
         .losses = device.allocate(token_loss_bytes(limits.batch_tokens), "losses")});
  }
}

std::uint64_t LossPass::shared_bytes(const Architecture& arch, DType dtype, std::int64_t batch_tokens) {
  return round_up(loss_workspace_bytes(arch, dtype, batch_tokens), Device::kAlignment);
}

std::uint64_t LossPass::bytes_per_batch(const Architecture& arch, DType dtype, std::int64_t batch_tokens) {
  std::uint64_t total = 0;
  for (const std::uint64_t bytes : {hidden_state_bytes(arch, dtype, batch_tokens), statistics_bytes(batch_tokens),
                                    token_loss_bytes(batch_tokens), Batch::size_bytes(arch, batch_tokens)}) {
    total += round_up(bytes, Device::kAlignment);
  }
  return total;
}

std::vector<float> LossPass::run(std::span<const PackedDocuments> batches) {
  CHECK(batches.size() <= places_.size(), "more batches than the pass was allocated for");
  const Architecture& arch = *parts_.arch;
  const DType dtype = parts_.slices->dtype();
  std::vector<std::unique_ptr<Batch>> tokens;
  std::vector<ForwardBatch> forward;
  for (const PackedDocuments& documents : batches) {
    tokens.push_back(std::make_unique<Batch>(device_, *parts_.stream, arch, documents, &rope_rows_));
    const std::int64_t count = tokens.back()->num_tokens();
    CHECK(count <= limits_.batch_tokens, "a batch has more tokens than the pass was allocated for");
    forward.push_back({.batch = tokens.back().get(),
                       .hidden = first_rows(places_[forward.size()].hidden, dtype, {count, arch.hidden})});
  }
  forward_batches(parts_, forward, Workspace(workspace_.bytes()));
  head(forward);
  std::vector<float> losses;
  for (std::size_t idx = 0; idx < tokens.size(); ++idx) {
    const TensorView of_batch = first_rows(places_[idx].losses, DType::kF32, {tokens[idx]->num_tokens()});
    losses_of_statistics(
        *parts_.stream,
        first_rows(places_[idx].statistics, DType::kF32, {tokens[idx]->num_tokens(), kSoftmaxStatistics}),
        tokens[idx]->labels(), of_batch);
    parts_.stream->synchronize();
    const auto values = of_batch.as<float>();
    losses.insert(losses.end(), values.begin(), values.end());
  }
  return losses;
}

void LossPass::head(std::span<const ForwardBatch> batches) {
  const Architecture& arch = *parts_.arch;
  const SliceHold norm = parts_.slices->hold(final_norm_slice(arch));
  for (std::int64_t range_idx = 0; range_idx < arch.num_vocab_ranges(); ++range_idx) {
    const SliceHold rows = parts_.slices->hold(head_slice(arch, range_idx));
    for (std::size_t idx = 0; idx < batches.size(); ++idx) {
      const ForwardBatch& batch = batches[idx];
      const HeadState state{.statistics = first_rows(places_[idx].statistics, DType::kF32,
                                                     {batch.batch->num_tokens(), kSoftmaxStatistics})};
      head_statistics({.stream = parts_.stream, .arch = &arch, .batch = batch.batch, .dtype = parts_.slices->dtype()},
                      range_idx, {.norm = norm.bytes(), .rows = rows.bytes()}, batch.hidden, state,
                      Workspace(workspace_.bytes()));
    }
    parts_.stream->synchronize();
  }
}

}  // namespace sluice
