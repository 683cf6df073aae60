// SPDX-License-Identifier: Apache-2.0
#include "model/training_pass.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <vector>

#include "base/error.h"
#include "model/block.h"
#include "model/model_ends.h"

namespace sluice {
namespace {

std::uint64_t workspace_bytes(const Architecture& arch, std::int64_t num_tokens, DType dtype) {
  return std::max({block_forward_workspace_bytes(arch, num_tokens, dtype),
                   block_backward_workspace_bytes(arch, num_tokens, dtype),
                   head_workspace_bytes(arch, num_tokens, dtype)});
}

std::uint64_t boundary_bytes(const Architecture& arch, std::int64_t num_tokens, DType dtype) {
  return static_cast<std::uint64_t>(num_tokens * arch.hidden) * size_bytes(dtype);
}

std::uint64_t gradient_bytes(const Architecture& arch, std::size_t slice_idx) {
  return slice_layout(arch, slice_idx).size_bytes(DType::kF32);
}

// Waits for the stream when it dies; a failure of the stream has been or will be thrown by another wait.
class StreamIsDone {
 public:
  explicit StreamIsDone(Stream& stream) : stream_(stream) {}
  StreamIsDone(const StreamIsDone&) = delete;
  StreamIsDone& operator=(const StreamIsDone&) = delete;
  ~StreamIsDone() {
    try {
      stream_.synchronize();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    }
  }

 private:
  Stream& stream_;
};

class Runner {
 public:
  Runner(const TrainingPass& pass, const Batch& batch)
      : pass_(pass),
        arch_(*pass.arch),
        batch_(batch),
        dtype_(pass.slices->dtype()),
        workspace_(pass.device->allocate(workspace_bytes(arch_, batch.num_tokens(), dtype_), "a block's activations")),
        losses_(pass.device->allocate(static_cast<std::uint64_t>(batch.num_tokens()) * sizeof(float), "losses")) {
    const std::uint64_t bytes = boundary_bytes(arch_, batch.num_tokens(), dtype_);
    boundaries_.reserve(arch_.layers.size() + 1);
    for (std::size_t idx = 0; idx <= arch_.layers.size(); ++idx) {
      boundaries_.push_back(pass.device->allocate(bytes, "blocks' inputs"));
    }
  }

  double run(const TakeGradients& take_gradients) {
    forward();
    Buffer block_gradients = gradient_buffer(block_slice(arch_, 0));
    Buffer norm_gradients = gradient_buffer(final_norm_slice(arch_));
    std::vector<Buffer> embedding_gradients;
    for (std::int64_t idx = 0; idx < arch_.num_vocab_ranges(); ++idx) {
      embedding_gradients.push_back(gradient_buffer(embedding_slice(idx)));
    }
    Buffer head_gradients = arch_.tied_head ? Buffer() : gradient_buffer(head_slice(arch_, 0));
    // Whatever fails below, the stream is done with these before they are given back.
    const StreamIsDone done(*pass_.stream);
    for (const Buffer& gradients : embedding_gradients) clear(gradients);
    clear(norm_gradients);

    // The gradient of a block's output takes the place of that output.
    run_head(norm_gradients, head_gradients, embedding_gradients, take_gradients);
    take_gradients(final_norm_slice(arch_), norm_gradients.bytes());
    for (std::int64_t layer_idx = arch_.num_layers() - 1; layer_idx >= 0; --layer_idx) {
      clear(block_gradients);
      const auto at = static_cast<std::size_t>(layer_idx);
      const SliceHold slice = pass_.slices->hold(block_slice(arch_, layer_idx));
      // dx goes where dy is, since x is still read; the next block down finds it there.
      block_backward(block_pass(layer_idx, slice), block_gradients.bytes(), boundary(at), boundary(at + 1),
                     boundary(at + 1), Workspace(workspace_.bytes()));
      pass_.stream->synchronize();
      std::swap(boundaries_[at], boundaries_[at + 1]);
      take_gradients(block_slice(arch_, layer_idx), block_gradients.bytes());
    }
    if (arch_.learned_positions > 0) {
      const Buffer gradients = gradient_buffer(positions_slice(arch_));
      clear(gradients);
      embed_positions_backward(end_pass(), gradients.bytes(), boundary(0));
      pass_.stream->synchronize();
      take_gradients(positions_slice(arch_), gradients.bytes());
    }
    for (std::int64_t idx = arch_.num_vocab_ranges() - 1; idx >= 0; --idx) {
      const std::span<std::byte> gradients = embedding_gradients[static_cast<std::size_t>(idx)].bytes();
      embed_rows_backward(end_pass(), idx, gradients, boundary(0));
      pass_.stream->synchronize();
      take_gradients(embedding_slice(idx), gradients);
    }
    return mean_loss();
  }

 private:
  TensorView boundary(std::size_t idx) const {
    return {boundaries_[idx].bytes(), dtype_, {batch_.num_tokens(), arch_.hidden}};
  }

  BlockPass block_pass(std::int64_t layer_idx, const SliceHold& slice) const {
    return {.stream = pass_.stream,
            .arch = &arch_,
            .layer_idx = layer_idx,
            .batch = &batch_,
            .dtype = dtype_,
            .weights = slice.bytes()};
  }

  EndPass end_pass() const { return {.stream = pass_.stream, .arch = &arch_, .batch = &batch_, .dtype = dtype_}; }

  Buffer gradient_buffer(std::size_t slice_idx) const {
    return pass_.device->allocate(gradient_bytes(arch_, slice_idx), "gradients");
  }

  void clear(const Buffer& gradients) const {
    pass_.stream->run([bytes = gradients.bytes()] { std::memset(bytes.data(), 0, bytes.size()); });
  }

  void forward() {
    for (std::int64_t idx = 0; idx < arch_.num_vocab_ranges(); ++idx) {
      const SliceHold slice = pass_.slices->hold(embedding_slice(idx));
      embed_rows(end_pass(), idx, slice.bytes(), boundary(0));
      pass_.stream->synchronize();
    }
    if (arch_.learned_positions > 0) {
      const SliceHold slice = pass_.slices->hold(positions_slice(arch_));
      embed_positions(end_pass(), slice.bytes(), boundary(0));
      pass_.stream->synchronize();
    }
    for (std::int64_t layer_idx = 0; layer_idx < arch_.num_layers(); ++layer_idx) {
      const auto at = static_cast<std::size_t>(layer_idx);
      const SliceHold slice = pass_.slices->hold(block_slice(arch_, layer_idx));
      block_forward(block_pass(layer_idx, slice), boundary(at), boundary(at + 1), Workspace(workspace_.bytes()));
      pass_.stream->synchronize();
    }
  }

  void run_head(const Buffer& norm_gradients, const Buffer& head_gradients, const std::vector<Buffer>& embedding,
                const TakeGradients& take_gradients) {
    const SliceHold norm = pass_.slices->hold(final_norm_slice(arch_));
    const TensorView x = boundary(arch_.layers.size());
    const float scale = 1.0F / static_cast<float>(batch_.num_labels());
    const std::int64_t num_ranges = arch_.num_vocab_ranges();
    const auto rows_of = [&](std::int64_t idx) {
      return arch_.tied_head ? embedding[static_cast<std::size_t>(idx)].bytes() : head_gradients.bytes();
    };
    const auto done_with = [&](std::int64_t idx) {
      pass_.stream->synchronize();
      if (!arch_.tied_head) take_gradients(head_slice(arch_, idx), head_gradients.bytes());
    };
    if (num_ranges == 1) {
      const SliceHold rows = pass_.slices->hold(head_slice(arch_, 0));
      if (!arch_.tied_head) clear(head_gradients);
      head_loss(end_pass(), {.norm = norm.bytes(), .rows = rows.bytes()},
                {.norm = norm_gradients.bytes(), .rows = rows_of(0)}, x, x, losses(), scale,
                Workspace(workspace_.bytes()));
      done_with(0);
      return;
    }
    Workspace counting;
    take_head_state(arch_, batch_.num_tokens(), counting);
    const Buffer memory = pass_.device->allocate(counting.used_bytes(), "the head's statistics");
    Workspace taken(memory.bytes());
    const HeadState state = take_head_state(arch_, batch_.num_tokens(), taken);
    const StreamIsDone done(*pass_.stream);
    for (std::int64_t idx = 0; idx < num_ranges; ++idx) {
      const SliceHold rows = pass_.slices->hold(head_slice(arch_, idx));
      head_statistics(end_pass(), idx, {.norm = norm.bytes(), .rows = rows.bytes()}, x, state,
                      Workspace(workspace_.bytes()));
      pass_.stream->synchronize();
    }
    for (std::int64_t idx = 0; idx < num_ranges; ++idx) {
      const SliceHold rows = pass_.slices->hold(head_slice(arch_, idx));
      if (!arch_.tied_head) clear(head_gradients);
      head_gradients_of(idx, {.norm = norm.bytes(), .rows = rows.bytes()}, rows_of(idx), x, state, scale);
      done_with(idx);
    }
    head_end(end_pass(), norm.bytes(), norm_gradients.bytes(), x, x, losses(), state, Workspace(workspace_.bytes()));
    pass_.stream->synchronize();
  }

  void head_gradients_of(std::int64_t idx, const HeadSlices& weights, std::span<std::byte> gradients, TensorView x,
                         const HeadState& state, float scale) const {
    head_gradients(end_pass(), idx, weights, gradients, x, state, scale, Workspace(workspace_.bytes()));
  }

  TensorView losses() const { return {losses_.bytes(), DType::kF32, {batch_.num_tokens()}}; }

  double mean_loss() const {
    std::vector<float> values(static_cast<std::size_t>(batch_.num_tokens()));
    const auto to = std::as_writable_bytes(std::span(values));
    pass_.stream->copy(to, losses_.bytes().first(to.size()));
    pass_.stream->synchronize();
    double total = 0;
    for (const float value : values) total += static_cast<double>(value);
    return total / static_cast<double>(batch_.num_labels());
  }

  const TrainingPass& pass_;
  const Architecture& arch_;
  const Batch& batch_;
  DType dtype_;
  Buffer workspace_;
  Buffer losses_;
  std::vector<Buffer> boundaries_;  // [idx] is what block idx reads; the last is what the head reads
};

}  // namespace

double run_training_pass(const TrainingPass& pass, const Batch& batch, const TakeGradients& take_gradients) {
  if (batch.num_labels() == 0) throw InvalidInput("a batch has no token to learn from: every label is ignored");
  return Runner(pass, batch).run(take_gradients);
}

}  // namespace sluice
