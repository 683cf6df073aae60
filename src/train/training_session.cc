// SPDX-License-Identifier: Apache-2.0
#include "train/training_session.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "model/slice_layout.h"
#include "tier/measured_shape.h"
#include "train/state_keys.h"

namespace sluice {
namespace {

std::unique_ptr<SliceStore> open_store(const StoreHome& home, std::uint64_t chunk_bytes) {
  if (SliceStore::holds_store(home)) return SliceStore::open(home);
  const SteadyClock clock;
  StoreShape shape = measured_shape(home, clock);
  shape.chunk_bytes = chunk_bytes;
  return SliceStore::create(home, shape);
}

bool all_on_drives(const Schedule& schedule) {
  return std::all_of(schedule.homes.begin(), schedule.homes.end(), [](const SliceHomes& homes) {
    return homes.weights == Home::kNvme && homes.optimizer == Home::kNvme;
  });
}

}  // namespace

TrainingSession::TrainingSession(const SessionOptions& options)
    : options_(options),
      arch_(options.model->arch),
      commits_every_step_(all_on_drives(options.schedule)),
      choice_(choose_engine(options.store_directories)),
      device_(options.device_bytes, options.num_threads),
      host_("host memory", options.host_bytes),
      store_(open_store({files_, *choice_.engine, choice_.caching, options.store_directories},
                        options.buffers.chunk_bytes)),
      ring_(device_, *choice_.engine, host_, staging_shape(options.buffers.staging_bytes, store_->chunk_bytes())),
      keeper_({.device = &device_, .host = &host_, .store = store_.get(), .ring = &ring_, .trace = options.trace}),
      ready_(num_slices(arch_)) {
  CHECK(store_->chunk_bytes() == options.buffers.chunk_bytes, "the plan was made for this store");
  add_weights(weight_keeping());
  runner_ = std::make_unique<StepRunner>(device_, arch_, keeper_, options_.schedule, options_.trace);
  optimizer_ = std::make_unique<OptimizerLane>(OptimizerLane::Options{.arch = &arch_,
                                                                      .keeper = &keeper_,
                                                                      .store = store_.get(),
                                                                      .host = &host_,
                                                                      .schedule = &options_.schedule,
                                                                      .num_threads = options_.num_threads,
                                                                      .num_windows = options_.buffers.optimizer_windows,
                                                                      .trace = options_.trace});
  const StepMemory memory = step_memory(arch_, options_.schedule, options_.buffers);
  // What is committed is there already; a run that will not fit fails here, before it starts.
  const std::uint64_t taken = store_->taken_bytes();
  if (memory.drives.total() > taken) store_->reserve_space(memory.drives.total() - taken);
}

TrainingSession::~TrainingSession() {
  // Whoever wanted to know what the last update did has waited for it.
  try {
    optimizer_->wait();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
  }
}

WeightKeeping TrainingSession::weight_keeping() {
  return {.keeper = &keeper_, .store = store_.get(), .arch = &arch_, .schedule = &options_.schedule};
}

std::optional<std::string> TrainingSession::committed_note() const {
  if (store_->committed().empty()) return std::nullopt;
  return store_->last_note();
}

void TrainingSession::begin(const CheckpointSlices& checkpoint, const std::string& note, const ProgressSink& progress) {
  CHECK(!committed_note(), "a run begins once");
  const std::size_t total = num_slices(arch_);
  fill_weights(weight_keeping(), checkpoint, [&](std::size_t slice_idx) {
    if (progress.interrupted()) throw Cancelled("interrupted while the weights were read; nothing was kept");
    progress.report("weights", slice_idx + 1, total);
  });
  if (commits_every_step_) store_->commit(note);
}

void TrainingSession::resume() {
  CHECK(committed_note(), "a commit to resume from");
  keeper_.load_memory();
}

void TrainingSession::require_finite(const StepResult& result, double norm) {
  if (std::isfinite(result.loss) && std::isfinite(norm)) return;
  if (!std::isfinite(result.loss)) {
    throw InvalidInput(
        "the loss is no longer a number: lower the learning rate or look at the rows of this step; everything up to "
        "the step before it is kept");
  }
  for (std::size_t slice_idx = 0; slice_idx < result.squares.size(); ++slice_idx) {
    if (std::isfinite(result.squares[slice_idx])) continue;
    throw InvalidInput(
        fmt::format("the gradients of {} are no longer numbers: lower the learning rate or look at the rows of this "
                    "step; everything up to the step before it is kept",
                    slice_name(arch_, slice_idx)));
  }
}

SessionStep TrainingSession::step(std::span<const PackedDocuments> micro_batches, const UpdateSettings& settings,
                                  const std::string& note) {
  SessionStep step{.result = runner_->run(micro_batches, ready_)};
  step.grad_norm = std::sqrt(step.result.squared_norm);
  require_finite(step.result, step.grad_norm);
  AdamWSettings adam = settings.adam;
  if (settings.max_grad_norm > 0) {
    // As torch.nn.utils.clip_grad_norm_.
    adam.grad_scale = static_cast<float>(std::min(1.0, settings.max_grad_norm / (step.grad_norm + 1e-6)));
  }
  std::function<void()> when_done;
  if (commits_every_step_) when_done = [this, note] { store_->commit(note); };
  ready_ = optimizer_->update(adam, std::move(when_done));
  return step;
}

StepResult TrainingSession::evaluate(std::span<const PackedDocuments> micro_batches) {
  return runner_->evaluate(micro_batches, ready_);
}

void TrainingSession::wait() { optimizer_->wait(); }

void TrainingSession::commit(const std::string& note) {
  wait();
  if (commits_every_step_) return;  // it is there already
  keeper_.stage_memory();
  store_->commit(note);
}

SessionUse TrainingSession::use() const {
  return {.device = {device_.arena_bytes() - device_.free_bytes(), device_.peak_bytes()},
          .host = {host_.used_bytes(), host_.peak_bytes()},
          .drives = {store_->taken_bytes(), store_->peak_taken_bytes()}};
}

bool TrainingSession::has_snapshot(const std::string& name) const {
  const std::vector<SnapshotInfo> snapshots = store_->snapshots();
  return std::any_of(snapshots.begin(), snapshots.end(), [&](const SnapshotInfo& info) { return info.name == name; });
}

void TrainingSession::keep_snapshot(const std::string& name) {
  drop_snapshot(name);
  store_->pin(name);
}

void TrainingSession::drop_snapshot(const std::string& name) {
  if (has_snapshot(name)) store_->unpin(name);
}

std::span<std::byte> TrainingSession::memory_for(std::size_t slice_idx) {
  const std::uint64_t room = round_up(weight_bytes(arch_, options_.schedule, slice_idx), kBlockBytes);
  if (slice_memory_.size_bytes() < room) slice_memory_ = PageMemory(room);
  return slice_memory_.bytes().first(room);
}

std::span<const std::byte> TrainingSession::weights(std::size_t slice_idx) {
  const std::span<std::byte> memory = memory_for(slice_idx);
  read_weights(weight_keeping(), slice_idx, memory);
  return memory.first(weight_bytes(arch_, options_.schedule, slice_idx));
}

std::span<const std::byte> TrainingSession::weights_in(const std::string& snapshot, std::size_t slice_idx) {
  const std::span<std::byte> memory = memory_for(slice_idx);
  const SliceRef version = store_->find_in_snapshot(snapshot, weights_key(arch_, slice_idx));
  CHECK(version != nullptr, "a snapshot has every slice");
  store_->read(*version, 0, memory).wait();
  store_->verify(*version, 0, memory);
  return memory.first(weight_bytes(arch_, options_.schedule, slice_idx));
}

}  // namespace sluice
