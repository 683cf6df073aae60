// SPDX-License-Identifier: Apache-2.0
#include "train/step_runner.h"

#include <algorithm>
#include <deque>
#include <exception>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "base/units.h"
#include "model/adapter_layout.h"
#include "model/packed_block.h"
#include "model/slice_layout.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "plan/step_memory.h"
#include "train/finite_numbers.h"
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

struct StepRunner::Member {
  std::unique_ptr<Batch> batch;
  std::int64_t batch_idx = 0;  // of the wave
  std::int64_t step_idx = 0;   // of the step

  std::int64_t num_tokens() const { return batch->num_tokens(); }
};

StepRunner::StepRunner(Device& device, const Architecture& arch, RunKeeper& keeper, const Schedule& schedule,
                       LaneTrace* trace)
    : device_(device),
      arch_(arch),
      keeper_(keeper),
      schedule_(schedule),
      stream_(device.make_stream("compute")),
      batch_stream_(device.make_stream("batches")),
      weights_(device, arch, keeper, schedule),
      gradients_(device, *stream_, arch, keeper, schedule),
      boundaries_(device, *stream_, arch, keeper, schedule),
      workspace_(device.allocate(workspace_bytes(arch, schedule), "a block's activations")) {
  if (trace != nullptr) stream_->watch(&trace_.emplace(*trace, Lane::kCompute));
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    if (!is_trained(arch, slice_idx)) continue;
    const std::uint64_t bytes = gradient_bytes(arch, slice_idx);
    const Home home = schedule.homes[slice_idx].gradients;
    keeper.add(gradients_key(arch, slice_idx), bytes, home, Lifetime::kScratch);
    if (num_gradient_runs(arch, schedule, slice_idx) == 2) {
      keeper.add(lookup_gradients_key(arch, slice_idx), bytes, home, Lifetime::kScratch);
    }
  }
  const std::uint64_t block_bytes = unpacked_bytes(arch, schedule);
  for (std::int64_t idx = 0; block_bytes > 0 && idx < schedule.group; ++idx) {
    unpacked_.push_back(device.allocate(block_bytes, "an unpacked block"));
  }
  const std::uint64_t head_bytes = head_state_bytes(arch, schedule);
  for (std::int64_t idx = 0; idx < schedule.wave; ++idx) {
    head_memory_.push_back(device.allocate(head_bytes, "the head's statistics"));
    losses_.push_back(device.allocate(loss_bytes(schedule), "losses"));
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
  if (trace_) stream_->run([this, text] { trace_->label(text); });
}

StepResult StepRunner::run(std::span<const PackedDocuments> micro_batches,
                           const std::vector<std::shared_future<void>>& ready, std::uint64_t dropout_seed) {
  dropout_seed_ = dropout_seed;
  StepResult result = go(micro_batches, ready, Aim::kLearn);
  gradients_.wait();
  const std::span<const float> squares = gradients_.squares();
  result.squares.assign(squares.begin(), squares.end());
  for (const float square : squares) result.squared_norm += static_cast<double>(square);
  return result;
}

StepResult StepRunner::evaluate(std::span<const PackedDocuments> micro_batches,
                                const std::vector<std::shared_future<void>>& ready) {
  return go(micro_batches, ready, Aim::kLossOnly);
}

std::optional<std::size_t> StepRunner::find_not_finite(std::span<const PackedDocuments> micro_batches,
                                                       const std::vector<std::shared_future<void>>& ready) {
  not_finite_.reset();
  is_watching_ = true;
  go(micro_batches, ready, Aim::kLossOnly);
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
                          const std::vector<std::shared_future<void>>& ready, Aim aim) {
  aim_ = aim;
  const std::int64_t num_labels = count_labels(micro_batches);
  if (num_labels == 0) throw InvalidInput("a step has no token to learn from: every label is ignored");
  loss_scale_ = 1.0F / static_cast<float>(num_labels);
  loss_sum_ = 0;
  const bool has_adapter = arch_.adapter.exists();
  adapters_ready_ = has_adapter ? ready : std::vector<std::shared_future<void>>();
  weights_.follow(weight_order(micro_batches.size(), aim),
                  has_adapter ? std::vector<std::shared_future<void>>(ready.size()) : ready);
  StepResult result{.num_labels = num_labels};
  const auto wave = static_cast<std::size_t>(schedule_.wave);
  CHECK(!schedule_.is_one_wave || micro_batches.size() <= wave || aim == Aim::kLossOnly,
        "no more waves than memory was taken for");
  for (std::size_t first = 0; first < micro_batches.size(); first += wave) {
    const std::size_t count = std::min(wave, micro_batches.size() - first);
    is_first_ = first == 0;
    is_last_ = first + count == micro_batches.size();
    begin_wave(micro_batches.subspan(first, count));
    for (Member& member : wave_) {
      member.step_idx = static_cast<std::int64_t>(first) + member.batch_idx;
      result.num_tokens += member.num_tokens();
    }
    forward();
    head();
    if (aim == Aim::kLearn) {
      backward();
      embedding_backward();
    } else {
      for (const Member& member : wave_) boundaries_.drop({member.batch_idx, arch_.num_layers()});
    }
    add_losses();
  }
  wave_.clear();
  result.loss = loss_sum_ / static_cast<double>(num_labels);
  return result;
}

// As forward(), head() and backward() use them.
std::vector<std::size_t> StepRunner::weight_order(std::size_t num_micro_batches, Aim aim) const {
  std::vector<std::size_t> wave;
  for (std::int64_t idx = 0; idx < arch_.num_vocab_ranges(); ++idx) wave.push_back(embedding_slice(idx));
  if (arch_.learned_positions > 0) wave.push_back(positions_slice(arch_));
  for (std::int64_t idx = 0; idx < arch_.num_layers(); ++idx) wave.push_back(block_slice(arch_, idx));
  wave.push_back(final_norm_slice(arch_));
  const int num_sweeps = arch_.num_vocab_ranges() > 1 && aim == Aim::kLearn ? 2 : 1;
  for (int sweep = 0; sweep < num_sweeps; ++sweep) {
    for (std::int64_t idx = 0; idx < arch_.num_vocab_ranges(); ++idx) wave.push_back(head_slice(arch_, idx));
  }
  if (aim == Aim::kLearn) {
    for (std::int64_t last = arch_.num_layers(); last > 0; last -= schedule_.group) {
      for (std::int64_t idx = std::max<std::int64_t>(0, last - schedule_.group); idx < last; ++idx) {
        wave.push_back(block_slice(arch_, idx));
      }
    }
  }
  std::vector<std::size_t> order;
  const auto num_waves = div_ceil(num_micro_batches, static_cast<std::uint64_t>(schedule_.wave));
  for (std::uint64_t idx = 0; idx < num_waves; ++idx) order.insert(order.end(), wave.begin(), wave.end());
  return order;
}

void StepRunner::begin_wave(std::span<const PackedDocuments> micro_batches) {
  wave_.clear();
  for (const PackedDocuments& documents : micro_batches) {
    Member member;
    member.batch_idx = static_cast<std::int64_t>(wave_.size());
    member.batch = std::make_unique<Batch>(device_, *batch_stream_, arch_, documents);
    CHECK(member.num_tokens() <= schedule_.batch_tokens, "a micro-batch is as large as was said");
    wave_.push_back(std::move(member));
  }
}

void StepRunner::await_adapter(std::size_t slice_idx) {
  if (adapters_ready_.empty() || !adapters_ready_[slice_idx].valid()) return;
  stream_->run([ready = adapters_ready_[slice_idx]] { ready.get(); });
}

std::span<std::byte> StepRunner::use_block(std::int64_t layer_idx, std::size_t idx_in_group) {
  const std::span<std::byte> kept = weights_.use(block_slice(arch_, layer_idx), *stream_);
  if (unpacked_.empty()) return kept;
  const std::span<std::byte> slice = unpacked_[idx_in_group].bytes();
  PackedBlock(arch_, schedule_.dtype).unpack(*stream_, kept, slice);
  return slice;
}

BlockPass StepRunner::block_pass(const Member& member, std::int64_t layer_idx, std::span<std::byte> weights) const {
  BlockPass pass{.stream = stream_.get(),
                 .arch = &arch_,
                 .layer_idx = layer_idx,
                 .batch = member.batch.get(),
                 .dtype = schedule_.dtype,
                 .weights = weights};
  if (arch_.adapter.exists()) {
    const auto place = static_cast<std::uint64_t>(member.step_idx * arch_.num_layers() + layer_idx);
    pass.adapter = {.weights = keeper_.bytes(adapter_key(arch_, block_slice(arch_, layer_idx))),
                    .dropout_seed = Random(dropout_seed_ ^ Random(place).next()).next(),
                    .dropout = aim_ == Aim::kLearn ? arch_.adapter.dropout : 0};
  }
  return pass;
}

EndPass StepRunner::end_pass(const Member& member) const {
  return {.stream = stream_.get(), .arch = &arch_, .batch = member.batch.get(), .dtype = schedule_.dtype};
}

void StepRunner::forward() {
  std::vector<TensorView> x;
  for (const Member& member : wave_) x.push_back(boundaries_.make({member.batch_idx, 0}, member.num_tokens()));
  const auto for_all = [&](std::size_t slice_idx, const auto& body) {
    const std::span<std::byte> slice = weights_.use(slice_idx, *stream_);
    label(slice_name(arch_, slice_idx) + " forward");
    for (std::size_t idx = 0; idx < wave_.size(); ++idx) body(end_pass(wave_[idx]), slice, x[idx]);
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
    for (std::size_t batch = 0; batch < wave_.size(); ++batch) {
      const Member& member = wave_[batch];
      for (std::int64_t idx = first; idx < last; ++idx) {
        const TensorView y = boundaries_.make({member.batch_idx, idx + 1}, member.num_tokens());
        label(fmt::format("{} forward, batch {}", slice_name(arch_, block_slice(arch_, idx)), batch));
        block_forward(block_pass(member, idx, slices[static_cast<std::size_t>(idx - first)]), x[batch], y, workspace());
        watch(block_slice(arch_, idx), y);
        if (aim_ == Aim::kLearn) {
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

// Empty where nothing is trained.
std::span<std::byte> StepRunner::begin_gradients(std::size_t slice_idx, const std::string& key) {
  return is_trained(arch_, slice_idx) ? gradients_.begin(slice_idx, key, sum()) : std::span<std::byte>();
}

void StepRunner::end_gradients(std::size_t slice_idx, const std::string& key) {
  if (!is_trained(arch_, slice_idx)) return;
  if (is_last_) gradients_.measure(slice_idx, key);
  gradients_.end(slice_idx, key);
}

void StepRunner::head() {
  // The backward's boundaries are on their way while the head computes.
  if (aim_ == Aim::kLearn) {
    std::deque<BoundaryPlaces::Id> order;
    for (const Member& member : wave_) order.push_back({member.batch_idx, arch_.num_layers()});
    for (std::int64_t last = arch_.num_layers(); last > 0; last -= schedule_.group) {
      for (const Member& member : wave_) {
        for (std::int64_t idx = last - 1; idx >= std::max<std::int64_t>(0, last - schedule_.group); --idx) {
          order.push_back({member.batch_idx, idx});
        }
      }
    }
    boundaries_.follow(std::move(order));
  } else {
    std::deque<BoundaryPlaces::Id> order;
    for (const Member& member : wave_) order.push_back({member.batch_idx, arch_.num_layers()});
    boundaries_.follow(std::move(order));
  }
  const std::size_t norm_idx = final_norm_slice(arch_);
  const std::string norm_key = gradients_key(arch_, norm_idx);
  const std::span<std::byte> norm = weights_.use(norm_idx, *stream_);
  std::span<std::byte> norm_gradients;
  label("head");
  if (aim_ == Aim::kLearn) norm_gradients = begin_gradients(norm_idx, norm_key);
  if (arch_.num_vocab_ranges() == 1 && aim_ == Aim::kLearn) {
    head_at_once(norm, norm_gradients);
  } else {
    head_by_ranges(norm, norm_gradients);
  }
  if (aim_ == Aim::kLearn) end_gradients(norm_idx, norm_key);
  weights_.done(norm_idx, stream_->record());
}

void StepRunner::head_at_once(std::span<std::byte> norm, std::span<std::byte> norm_gradients) {
  const std::size_t rows_idx = head_slice(arch_, 0);
  const std::string key = gradients_key(arch_, rows_idx);
  const std::span<std::byte> rows = weights_.use(rows_idx, *stream_);
  const std::span<std::byte> row_gradients = begin_gradients(rows_idx, key);
  for (const Member& member : wave_) {
    const TensorView x = boundaries_.take({member.batch_idx, arch_.num_layers()}, member.num_tokens());
    const TensorView losses(losses_[static_cast<std::size_t>(member.batch_idx)].bytes(), DType::kF32,
                            {member.num_tokens()});
    head_loss(end_pass(member), {.norm = norm, .rows = rows}, {.norm = norm_gradients, .rows = row_gradients}, x, x,
              losses, loss_scale_, workspace());
  }
  weights_.done(rows_idx, stream_->record());
  end_head_gradients(rows_idx, key);
}

void StepRunner::end_head_gradients(std::size_t rows_idx, const std::string& key) {
  if (!arch_.tied_head) {
    end_gradients(rows_idx, key);
  } else if (is_trained(arch_, rows_idx)) {
    gradients_.end(rows_idx, key);  // what the tokens add comes last
  }
}

void StepRunner::head_by_ranges(std::span<std::byte> norm, std::span<std::byte> norm_gradients) {
  struct State {
    TensorView x, losses;
    HeadState head;
  };
  std::vector<State> states;
  for (const Member& member : wave_) {
    const auto at = static_cast<std::size_t>(member.batch_idx);
    State state;
    state.x = boundaries_.take({member.batch_idx, arch_.num_layers()}, member.num_tokens());
    state.losses = TensorView(losses_[at].bytes(), DType::kF32, {member.num_tokens()});
    Workspace memory(head_memory_[at].bytes());
    state.head = take_head_state(arch_, member.num_tokens(), memory);
    states.push_back(state);
  }
  for (std::int64_t range_idx = 0; range_idx < arch_.num_vocab_ranges(); ++range_idx) {
    const std::size_t rows_idx = head_slice(arch_, range_idx);
    const std::span<std::byte> rows = weights_.use(rows_idx, *stream_);
    for (std::size_t idx = 0; idx < wave_.size(); ++idx) {
      head_statistics(end_pass(wave_[idx]), range_idx, {.norm = norm, .rows = rows}, states[idx].x, states[idx].head,
                      workspace());
    }
    weights_.done(rows_idx, stream_->record());
  }
  if (aim_ == Aim::kLossOnly) {
    for (std::size_t idx = 0; idx < wave_.size(); ++idx) {
      losses_of_statistics(*stream_, states[idx].head.statistics, wave_[idx].batch->labels(), states[idx].losses);
    }
    return;
  }
  for (std::int64_t range_idx = 0; range_idx < arch_.num_vocab_ranges(); ++range_idx) {
    const std::size_t rows_idx = head_slice(arch_, range_idx);
    const std::string key = gradients_key(arch_, rows_idx);
    const std::span<std::byte> rows = weights_.use(rows_idx, *stream_);
    const std::span<std::byte> row_gradients = begin_gradients(rows_idx, key);
    for (std::size_t idx = 0; idx < wave_.size(); ++idx) {
      head_gradients(end_pass(wave_[idx]), range_idx, {.norm = norm, .rows = rows}, row_gradients, states[idx].x,
                     states[idx].head, loss_scale_, workspace());
    }
    weights_.done(rows_idx, stream_->record());
    end_head_gradients(rows_idx, key);
  }
  for (std::size_t idx = 0; idx < wave_.size(); ++idx) {
    const State& state = states[idx];
    head_end(end_pass(wave_[idx]), norm, norm_gradients, state.x, state.x, state.losses, state.head, workspace());
  }
}

void StepRunner::backward() {
  for (std::int64_t last = arch_.num_layers(); last > 0; last -= schedule_.group) {
    const std::int64_t first = std::max<std::int64_t>(0, last - schedule_.group);
    std::vector<std::span<std::byte>> slices;
    std::vector<std::span<std::byte>> sums;
    for (std::int64_t idx = first; idx < last; ++idx) {
      const std::size_t slice_idx = block_slice(arch_, idx);
      slices.push_back(use_block(idx, static_cast<std::size_t>(idx - first)));
      sums.push_back(gradients_.begin(slice_idx, gradients_key(arch_, slice_idx), sum()));
    }
    for (const Member& member : wave_) {
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
      end_gradients(slice_idx, gradients_key(arch_, slice_idx));
    }
  }
}

void StepRunner::embedding_backward() {
  if (!arch_.adapter.exists()) embedding_gradients();
  for (const Member& member : wave_) boundaries_.drop({member.batch_idx, arch_.num_layers()});
}

void StepRunner::embedding_gradients() {
  const auto dx_of = [&](const Member& member) {
    return boundaries_.current({member.batch_idx, arch_.num_layers()}, member.num_tokens());
  };
  if (arch_.learned_positions > 0) {
    const std::size_t slice_idx = positions_slice(arch_);
    const std::string key = gradients_key(arch_, slice_idx);
    const std::span<std::byte> sums = gradients_.begin(slice_idx, key, sum());
    for (const Member& member : wave_) embed_positions_backward(end_pass(member), sums, dx_of(member));
    end_gradients(slice_idx, key);
  }
  for (std::int64_t range_idx = arch_.num_vocab_ranges() - 1; range_idx >= 0; --range_idx) {
    const std::size_t slice_idx = embedding_slice(range_idx);
    const std::string key = arch_.tied_head ? lookup_gradients_key(arch_, slice_idx) : gradients_key(arch_, slice_idx);
    label(slice_name(arch_, slice_idx) + " backward");
    const std::span<std::byte> sums = gradients_.begin(slice_idx, key, sum());
    for (const Member& member : wave_) embed_rows_backward(end_pass(member), range_idx, sums, dx_of(member));
    if (!arch_.tied_head) {
      end_gradients(slice_idx, key);
    } else if (!is_last_) {
      gradients_.end(slice_idx, key);
    } else {
      const std::string whole_key = gradients_key(arch_, slice_idx);
      const std::span<std::byte> whole = gradients_.begin(slice_idx, whole_key, GradientPlaces::Sum::kGoesOn);
      const auto count = static_cast<std::int64_t>(gradient_bytes(arch_, slice_idx) / sizeof(float));
      const TensorView to(whole, DType::kF32, {count});
      add(*stream_, to, to, TensorView(sums, DType::kF32, {count}));
      gradients_.drop(slice_idx, key);
      end_gradients(slice_idx, whole_key);
    }
  }
}

void StepRunner::add_losses() {
  for (const Member& member : wave_) {
    std::vector<float> values(static_cast<std::size_t>(member.num_tokens()));
    const auto to = std::as_writable_bytes(std::span(values));
    label("");
    stream_->copy(to, losses_[static_cast<std::size_t>(member.batch_idx)].bytes().first(to.size()));
    stream_->synchronize();
    for (const float value : values) loss_sum_ += static_cast<double>(value);
  }
}

}  // namespace sluice
