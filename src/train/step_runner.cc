// SPDX-License-Identifier: Apache-2.0
#include "train/step_runner.h"

#include <algorithm>
#include <deque>
#include <exception>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "model/adapter_layout.h"
#include "model/packed_block.h"
#include "model/slice_layout.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "plan/step_memory.h"
#include "tensor/finite_numbers.h"
#include "train/state_keys.h"

namespace sluice {
namespace {

std::int64_t count_labels(std::span<const PackedDocuments> micro_batches) {
  std::int64_t count = 0;
  for (const PackedDocuments& batch : micro_batches) {
    for (const DocumentTokens& document : batch) {
      count += static_cast<std::int64_t>(document.labels.size()) -
               std::count(document.labels.begin(), document.labels.end(), kIgnoreLabel);
    }
  }
  return count;
}

}  // namespace

StepRunner::StepRunner(Device& device, const Architecture& arch, RunKeeper& keeper, const Schedule& schedule,
                       LaneTrace* trace)
    : device_(device),
      arch_(arch),
      keeper_(keeper),
      schedule_(schedule),
      stream_(device.make_stream("compute")),
      batch_stream_(device.make_stream("batches")),
      rope_rows_(arch.ropes),
      weights_(device, arch, keeper, schedule),
      gradients_(device, *stream_, arch, keeper, schedule),
      boundaries_(device, *stream_, arch, keeper, schedule),
      workspace_(device.allocate(workspace_bytes(arch, schedule), "a block's activations")),
      head_({.device = &device,
             .stream = stream_.get(),
             .arch = &arch,
             .schedule = &schedule_,
             .weights = &weights_,
             .gradients = &gradients_,
             .boundaries = &boundaries_,
             .workspace = workspace_.bytes()}) {
  if (trace != nullptr) stream_->watch(&trace_.emplace(*trace, Lane::kCompute));
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    if (!is_trained(arch, slice_idx)) continue;
    const std::uint64_t bytes = gradient_run_bytes(arch, schedule, slice_idx);
    const Home home = schedule.homes[slice_idx].gradients;
    keeper.add(gradients_key(arch, slice_idx), bytes, home, Lifetime::kScratch);
    if (num_gradient_runs(arch, schedule, slice_idx) == 2) {
      keeper.add(lookup_gradients_key(arch, slice_idx), bytes, home, Lifetime::kScratch);
    }
  }
  CHECK(schedule.stored_layers <= arch.num_layers(), "no more layers are stored than there are");
  for (std::uint64_t idx = 0; idx < num_stored(schedule); ++idx) {
    stored_.push_back(device.allocate(stored_bytes(arch, schedule), "a block's stored intermediates"));
  }
  const std::uint64_t block_bytes = unpacked_bytes(arch, schedule);
  for (std::int64_t idx = 0; block_bytes > 0 && idx < schedule.group; ++idx) {
    unpacked_.push_back(device.allocate(block_bytes, "an unpacked block"));
  }
}

StepRunner::~StepRunner() {
  // A failure of the stream has been thrown by another wait.
  try {
    stream_->synchronize();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
  }
}

void StepRunner::label(const std::string& text) {
  if (trace_) stream_->label(text);
}

StepResult StepRunner::run(std::span<const PackedDocuments> micro_batches,
                           const std::vector<std::shared_future<void>>& ready, std::uint64_t dropout_seed) {
  dropout_seed_ = dropout_seed;
  StepResult result = go(micro_batches, ready, StepAim::kLearn);
  gradients_.wait();
  const std::span<const float> squares = gradients_.squares();
  result.squares.assign(squares.begin(), squares.end());
  for (const float square : squares) result.squared_norm += static_cast<double>(square);
  return result;
}

StepResult StepRunner::evaluate(std::span<const PackedDocuments> micro_batches,
                                const std::vector<std::shared_future<void>>& ready) {
  return go(micro_batches, ready, StepAim::kLossOnly);
}

std::optional<std::size_t> StepRunner::find_not_finite(std::span<const PackedDocuments> micro_batches,
                                                       const std::vector<std::shared_future<void>>& ready) {
  not_finite_.reset();
  is_watching_ = true;
  go(micro_batches, ready, StepAim::kLossOnly);
  is_watching_ = false;
  return not_finite_;
}

void StepRunner::watch(std::size_t slice_idx, const TensorView& output) {
  if (!is_watching_) return;
  std::vector<std::byte> values(output.bytes().size());
  stream_->copy(values, output.bytes());
  stream_->synchronize();
  if (!all_finite(values, schedule_.dtype)) not_finite_ = std::min(not_finite_.value_or(slice_idx), slice_idx);
}

StepResult StepRunner::go(std::span<const PackedDocuments> micro_batches,
                          const std::vector<std::shared_future<void>>& ready, StepAim aim) {
  wave_.aim = aim;
  const std::int64_t num_labels = count_labels(micro_batches);
  if (num_labels == 0) throw InvalidInput("a step has no token to learn from: every label is ignored");
  wave_.loss_scale = 1.0F / static_cast<float>(num_labels);
  double loss_sum = 0;
  const bool has_adapter = arch_.adapter.exists();
  adapters_ready_ = has_adapter ? ready : std::vector<std::shared_future<void>>();
  weights_.follow(weight_order(arch_, schedule_, static_cast<std::int64_t>(micro_batches.size()), aim),
                  has_adapter ? std::vector<std::shared_future<void>>(ready.size()) : ready);
  StepResult result{.num_labels = num_labels};
  const auto wave = static_cast<std::size_t>(schedule_.wave);
  CHECK(!schedule_.is_one_wave || micro_batches.size() <= wave || aim == StepAim::kLossOnly,
        "no more waves than memory was taken for");
  for (std::size_t first = 0; first < micro_batches.size(); first += wave) {
    const std::size_t count = std::min(wave, micro_batches.size() - first);
    wave_.is_last = first + count == micro_batches.size();
    gradients_.begin_wave({.is_first = first == 0, .is_last = wave_.is_last});
    begin_wave(micro_batches.subspan(first, count));
    for (StepWave::Member& member : wave_.members) {
      member.step_idx = static_cast<std::int64_t>(first) + member.batch_idx;
      result.num_tokens += member.num_tokens();
    }
    forward();
    follow_boundaries();
    label("head");
    head_.run(wave_);
    if (aim == StepAim::kLearn) {
      backward();
      embedding_backward();
    } else {
      for (const StepWave::Member& member : wave_.members) boundaries_.drop({member.batch_idx, arch_.num_layers()});
    }
    label("");
    for (const float loss : head_.losses(wave_)) loss_sum += static_cast<double>(loss);
  }
  stream_->tell();
  wave_.members.clear();
  result.loss = loss_sum / static_cast<double>(num_labels);
  return result;
}

void StepRunner::begin_wave(std::span<const PackedDocuments> micro_batches) {
  wave_.members.clear();
  for (const PackedDocuments& documents : micro_batches) {
    StepWave::Member member;
    member.batch_idx = static_cast<std::int64_t>(wave_.members.size());
    member.batch = std::make_unique<Batch>(device_, *batch_stream_, arch_, documents, &rope_rows_);
    CHECK(member.num_tokens() <= schedule_.batch_tokens, "a micro-batch is as large as was said");
    wave_.members.push_back(std::move(member));
  }
}

void StepRunner::await_adapter(std::size_t slice_idx) {
  if (adapters_ready_.empty() || !adapters_ready_[slice_idx].valid()) return;
  if (stream_->kind() != DeviceKind::kCpu) {
    adapters_ready_[slice_idx].get();  // as WeightPlaces does
  } else {
    stream_->run([ready = adapters_ready_[slice_idx]] { ready.get(); });
  }
}

std::span<std::byte> StepRunner::use_block(std::int64_t layer_idx, std::size_t idx_in_group) {
  const std::span<std::byte> kept = weights_.use(block_slice(arch_, layer_idx), *stream_);
  if (unpacked_.empty()) return kept;
  const std::span<std::byte> slice = unpacked_[idx_in_group].bytes();
  PackedBlock(arch_, schedule_.dtype).unpack(*stream_, kept, slice);
  return slice;
}

BlockPass StepRunner::block_pass(const StepWave::Member& member, std::int64_t layer_idx, std::span<std::byte> weights) {
  BlockPass pass{.stream = stream_.get(),
                 .arch = &arch_,
                 .layer_idx = layer_idx,
                 .batch = member.batch.get(),
                 .dtype = schedule_.dtype,
                 .weights = weights,
                 .kept = stored(member, layer_idx)};
  if (wave_.aim == StepAim::kLearn) pass.attention = boundaries_.attention({member.batch_idx, layer_idx});
  if (arch_.adapter.exists()) {
    const auto place = static_cast<std::uint64_t>(member.step_idx * arch_.num_layers() + layer_idx);
    pass.adapter = {.weights = keeper_.bytes(adapter_key(arch_, block_slice(arch_, layer_idx))),
                    .dropout_seed = Random(dropout_seed_ ^ Random(place).next()).next(),
                    .dropout = wave_.aim == StepAim::kLearn ? arch_.adapter.dropout : 0};
  }
  return pass;
}

std::span<std::byte> StepRunner::stored(const StepWave::Member& member, std::int64_t layer_idx) const {
  const std::int64_t first = arch_.num_layers() - schedule_.stored_layers;
  if (wave_.aim == StepAim::kLossOnly || layer_idx < first) return {};
  return stored_[static_cast<std::size_t>((layer_idx - first) * schedule_.wave + member.batch_idx)].bytes();
}

EndPass StepRunner::end_pass(const StepWave::Member& member) const {
  return {.stream = stream_.get(), .arch = &arch_, .batch = member.batch.get(), .dtype = schedule_.dtype};
}

void StepRunner::forward() {
  std::vector<TensorView> x;
  for (const StepWave::Member& member : wave_.members) {
    x.push_back(boundaries_.make({member.batch_idx, 0}, member.num_tokens()));
  }
  const auto for_all = [&](std::size_t slice_idx, const auto& body) {
    const std::span<std::byte> slice = weights_.use(slice_idx, *stream_);
    label(slice_name(arch_, slice_idx) + " forward");
    for (std::size_t idx = 0; idx < wave_.members.size(); ++idx) body(end_pass(wave_.members[idx]), slice, x[idx]);
    weights_.done(slice_idx, stream_->record());
  };
  for (std::int64_t range_idx = 0; range_idx < arch_.num_vocab_ranges(); ++range_idx) {
    for_all(embedding_slice(range_idx), [&](const EndPass& pass, std::span<std::byte> slice, TensorView to) {
      embed_rows(pass, range_idx, slice, to);
    });
  }
  if (arch_.learned_positions > 0) {
    for_all(positions_slice(arch_),
            [&](const EndPass& pass, std::span<std::byte> slice, TensorView to) { embed_positions(pass, slice, to); });
  }
  for (const TensorView& embedded : x) watch(embedding_slice(0), embedded);
  for (std::int64_t first = 0; first < arch_.num_layers(); first += schedule_.group) {
    const std::int64_t last = std::min(arch_.num_layers(), first + schedule_.group);
    std::vector<std::span<std::byte>> slices;
    for (std::int64_t idx = first; idx < last; ++idx) {
      slices.push_back(use_block(idx, static_cast<std::size_t>(idx - first)));
      await_adapter(block_slice(arch_, idx));
    }
    for (std::size_t batch = 0; batch < wave_.members.size(); ++batch) {
      const StepWave::Member& member = wave_.members[batch];
      for (std::int64_t idx = first; idx < last; ++idx) {
        const TensorView y = boundaries_.make({member.batch_idx, idx + 1}, member.num_tokens());
        label(fmt::format("{} forward, batch {}", slice_name(arch_, block_slice(arch_, idx)), batch));
        block_forward(block_pass(member, idx, slices[static_cast<std::size_t>(idx - first)]), x[batch], y, workspace());
        watch(block_slice(arch_, idx), y);
        if (wave_.aim == StepAim::kLearn) {
          boundaries_.leave({member.batch_idx, idx});
        } else {
          boundaries_.drop({member.batch_idx, idx});
        }
        x[batch] = y;
      }
    }
    const Event used = stream_->record();
    for (std::int64_t idx = first; idx < last; ++idx) weights_.done(block_slice(arch_, idx), used);
  }
}

// The backward's boundaries are on their way while the head computes.
void StepRunner::follow_boundaries() {
  std::deque<BoundaryPlaces::Id> order;
  for (const StepWave::Member& member : wave_.members) order.push_back({member.batch_idx, arch_.num_layers()});
  for (std::int64_t last = arch_.num_layers(); wave_.aim == StepAim::kLearn && last > 0; last -= schedule_.group) {
    for (const StepWave::Member& member : wave_.members) {
      for (std::int64_t idx = last - 1; idx >= std::max<std::int64_t>(0, last - schedule_.group); --idx) {
        order.push_back({member.batch_idx, idx});
      }
    }
  }
  boundaries_.follow(std::move(order));
}

void StepRunner::backward() {
  for (std::int64_t last = arch_.num_layers(); last > 0; last -= schedule_.group) {
    const std::int64_t first = std::max<std::int64_t>(0, last - schedule_.group);
    std::vector<std::span<std::byte>> slices;
    std::vector<std::span<std::byte>> sums;
    for (std::int64_t idx = first; idx < last; ++idx) {
      const std::size_t slice_idx = block_slice(arch_, idx);
      slices.push_back(use_block(idx, static_cast<std::size_t>(idx - first)));
      sums.push_back(gradients_.begin(slice_idx, gradients_key(arch_, slice_idx)));
    }
    for (std::int64_t idx = std::max<std::int64_t>(0, first - schedule_.group); idx < first; ++idx) {
      const std::size_t slice_idx = block_slice(arch_, idx);
      gradients_.prepare(slice_idx, gradients_key(arch_, slice_idx));
    }
    for (const StepWave::Member& member : wave_.members) {
      // The gradient of a block's output lies where the head read its input, and moves down from there.
      const TensorView dy = boundaries_.current({member.batch_idx, arch_.num_layers()}, member.num_tokens());
      for (std::int64_t idx = last - 1; idx >= first; --idx) {
        const auto at = static_cast<std::size_t>(idx - first);
        const TensorView x = boundaries_.take({member.batch_idx, idx}, member.num_tokens());
        label(fmt::format("{} backward, batch {}", slice_name(arch_, block_slice(arch_, idx)), member.batch_idx));
        // Nothing below the first block is trained beside an adapter.
        const TensorView dx = idx == 0 && arch_.adapter.exists() ? TensorView() : dy;
        block_backward(block_pass(member, idx, slices[at]), sums[at], x, dy, dx, workspace());
        boundaries_.drop({member.batch_idx, idx});
      }
    }
    const Event used = stream_->record();
    for (std::int64_t idx = last - 1; idx >= first; --idx) {
      const std::size_t slice_idx = block_slice(arch_, idx);
      weights_.done(slice_idx, used);
      gradients_.end(slice_idx, gradients_key(arch_, slice_idx));
    }
  }
}

void StepRunner::embedding_backward() {
  if (!arch_.adapter.exists()) embedding_gradients();
  for (const StepWave::Member& member : wave_.members) boundaries_.drop({member.batch_idx, arch_.num_layers()});
}

void StepRunner::embedding_gradients() {
  const auto dx_of = [&](const StepWave::Member& member) {
    return boundaries_.current({member.batch_idx, arch_.num_layers()}, member.num_tokens());
  };
  if (arch_.learned_positions > 0) {
    const std::size_t slice_idx = positions_slice(arch_);
    const std::string key = gradients_key(arch_, slice_idx);
    const std::span<std::byte> sums = gradients_.begin(slice_idx, key);
    for (const StepWave::Member& member : wave_.members) {
      embed_positions_backward(end_pass(member), sums, dx_of(member));
    }
    gradients_.end(slice_idx, key);
  }
  for (std::int64_t range_idx = arch_.num_vocab_ranges() - 1; range_idx >= 0; --range_idx) {
    const std::size_t slice_idx = embedding_slice(range_idx);
    const std::string key = arch_.tied_head ? lookup_gradients_key(arch_, slice_idx) : gradients_key(arch_, slice_idx);
    label(slice_name(arch_, slice_idx) + " backward");
    const std::span<std::byte> sums = gradients_.begin(slice_idx, key);
    for (const StepWave::Member& member : wave_.members) {
      embed_rows_backward(end_pass(member), range_idx, sums, dx_of(member));
    }
    if (!arch_.tied_head) {
      gradients_.end(slice_idx, key);
    } else if (!wave_.is_last) {
      gradients_.leave(slice_idx, key);
    } else {
      const std::string whole_key = gradients_key(arch_, slice_idx);
      const std::span<std::byte> whole = gradients_.go_on(slice_idx, whole_key);
      const auto count = static_cast<std::int64_t>(gradient_bytes(arch_, slice_idx) / sizeof(float));
      const TensorView to(whole, DType::kF32, {count});
      add(*stream_, to, to, TensorView(sums, DType::kF32, {count}));
      gradients_.drop(slice_idx, key);
      gradients_.end(slice_idx, whole_key);
    }
  }
}

}  // namespace sluice
