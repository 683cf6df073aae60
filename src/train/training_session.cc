// SPDX-License-Identifier: Apache-2.0
#include "train/training_session.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "model/adapter_layout.h"
#include "model/slice_layout.h"
#include "plan/plan_json.h"
#include "tensor/finite_numbers.h"
#include "tier/direct_speed.h"
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

}  // namespace

TrainingSession::TrainingSession(const SessionOptions& options)
    : options_(options),
      arch_(options.model->arch),
      choice_(choose_engine(options.store_directories)),
      device_(make_device(options.device, {.arena_bytes = options.device_bytes,
                                           .scratch_bytes = options.buffers.scratch_bytes,
                                           .num_threads = options.num_threads})),
      host_("host memory", options.host_bytes),
      store_(open_store({files_, *choice_.engine, choice_.caching, options.store_directories},
                        options.buffers.chunk_bytes)),
      ring_(*device_, *choice_.engine, host_, staging_shape(options.buffers.staging_bytes, store_->chunk_bytes())),
      direct_(choose_direct()),
      keeper_({.device = device_.get(),
               .host = &host_,
               .store = store_.get(),
               .ring = &ring_,
               .trace = options.trace,
               .direct = direct_.get()}),
      ready_(num_slices(arch_)) {
  CHECK(device_->kind() == options.schedule.device, "a schedule for this kind of device");
  if (options.trace != nullptr) options.trace->show_to(device_->profiler_ranges());
  if (store_->chunk_bytes() != options.buffers.chunk_bytes) refuse_other_model();
  add_weights(weight_keeping());
  runner_ = std::make_unique<StepRunner>(*device_, arch_, keeper_, options_.schedule, options_.trace);
  optimizer_ = std::make_unique<OptimizerLane>(OptimizerLane::Options{.arch = &arch_,
                                                                      .keeper = &keeper_,
                                                                      .store = store_.get(),
                                                                      .host = &host_,
                                                                      .schedule = &options_.schedule,
                                                                      .num_threads = options_.num_threads,
                                                                      .num_windows = options_.buffers.optimizer_windows,
                                                                      .momentum = options_.momentum,
                                                                      .seed = options_.seed,
                                                                      .trace = options_.trace});
  commits_every_step_ = keeper_.durable_memory_bytes() == 0;
}

std::unique_ptr<DirectReader> TrainingSession::choose_direct() {
  const Schedule& schedule = options_.schedule;
  const bool any_come_from_drives =
      schedule.boundaries == Home::kNvme ||
      std::any_of(schedule.homes.begin(), schedule.homes.end(), [](const SliceHomes& homes) {
        return homes.weights == Home::kNvme || homes.gradients == Home::kNvme;
      });
  // What cannot be is told even where nothing would need it.
  if (!any_come_from_drives && options_.direct_storage != DirectWish::kOn) return nullptr;
  const SteadyClock clock;
  DirectChoice choice = choose_direct_reads(options_.direct_storage,
                                            {.files = files_,
                                             .engine = *choice_.engine,
                                             .caching = choice_.caching,
                                             .device = *device_,
                                             .host = host_,
                                             .clock = clock},
                                            options_.store_directories);
  log_debug(fmt::format("slices come from the drives {}: {}", choice.reader ? "past the host" : "through the host",
                        choice.why));
  return std::move(choice.reader);
}

void TrainingSession::refuse_other_model() const {
  throw InvalidInput(
      fmt::format("'{}' holds the state of another model than base_model: name the model that the run began with, or "
                  "another output_dir",
                  options_.store_directories.front()));
}

void TrainingSession::require_same_model() const {
  std::set<std::string> expected;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch_); ++slice_idx) {
    const std::string key = weights_key(arch_, slice_idx);
    const auto is_there = [&](const std::string& wanted, std::uint64_t size_bytes) {
      const SliceRef version = store_->find(wanted);
      return version != nullptr && version->size_bytes() == size_bytes;
    };
    // Beside adapters, weights that live in memory are in no commit.
    const bool may_lack = arch_.adapter.exists() && store_->find(key) == nullptr;
    const std::uint64_t adapter = adapter_bytes(arch_, slice_idx);
    if ((!may_lack && !is_there(key, weight_bytes(arch_, options_.schedule, slice_idx))) ||
        (adapter > 0 && !is_there(adapter_key(arch_, slice_idx), adapter))) {
      refuse_other_model();
    }
    expected.insert(key);
  }
  for (const SliceRef& version : store_->committed()) {
    if (is_weights_key(version->key()) && !expected.contains(version->key())) refuse_other_model();
  }
}

std::uint64_t TrainingSession::state_bytes() const {
  std::uint64_t bytes = 0;
  for (const SliceRef& version : store_->committed()) bytes += version->stored_bytes();
  return bytes;
}

std::uint64_t TrainingSession::more_bytes() const {
  // Of what is committed, the next commit needs all of it again where it is trained; where every step is a commit, the
  // plan has it twice.
  std::uint64_t there = 0;
  for (const SliceRef& version : store_->committed()) {
    if (!keeper_.is_on_drives(version->key())) continue;
    const bool is_read_only = arch_.adapter.exists() && is_weights_key(version->key());
    if (commits_every_step_ || is_read_only) there += version->stored_bytes();
  }
  StepBuffers buffers = options_.buffers;
  buffers.kept_versions.in_steps = 1;
  if (buffers.kept_versions.in_commits) buffers.kept_versions.in_commits = 0;
  const std::uint64_t total = step_memory(arch_, options_.schedule, buffers).drives.total();
  return total > there ? total - there : 0;
}

void TrainingSession::reserve_space() {
  const std::uint64_t more = more_bytes();
  const std::uint64_t there = keeper_.scratch_drive_bytes();
  store_->reserve_space(more > there ? more - there : 0);
}

std::vector<std::uint64_t> TrainingSession::missing_bytes() const {
  const std::uint64_t planned = step_memory(arch_, options_.schedule, options_.buffers).drives.total();
  const std::uint64_t kept = store_->kept_bytes();
  return store_->missing_bytes(std::max(more_bytes(), planned > kept ? planned - kept : 0));
}

TrainingSession::~TrainingSession() {
  // Whoever wanted to know what the last update did has waited for it.
  try {
    optimizer_->wait();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
  }
}

WeightKeeping TrainingSession::weight_keeping() {
  return {.keeper = &keeper_,
          .store = store_.get(),
          .arch = &arch_,
          .schedule = &options_.schedule,
          .adapter_seed = options_.seed,
          .num_threads = options_.num_threads};
}

std::optional<std::string> TrainingSession::committed_note() const {
  if (store_->committed().empty()) return std::nullopt;
  return store_->last_note();
}

void TrainingSession::begin(const CheckpointSlices& checkpoint, const std::string& note, const ProgressSink& progress) {
  for (const SliceRef& version : store_->committed()) store_->remove(version->key());
  reserve_space();  // a run that will not fit fails before it starts
  const std::size_t total = num_slices(arch_);
  fill_weights(weight_keeping(), checkpoint, [&](std::size_t slice_idx) {
    if (progress.interrupted()) throw Cancelled("interrupted while the weights were read; nothing was kept");
    progress.report({.what = "weights", .done = slice_idx + 1, .total = total, .unit = ProgressUnit::kSlices});
  });
  if (commits_every_step_) store_->commit(note);
}

void TrainingSession::resume(const CheckpointSlices& checkpoint) {
  CHECK(committed_note(), "a commit to resume from");
  require_same_model();
  require_same_state();
  reserve_space();
  keeper_.load_memory();
  if (!arch_.adapter.exists()) return;
  refill_weights(weight_keeping(), checkpoint);
  // What was on the drives and has its place in memory now goes with the next commit.
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch_); ++slice_idx) {
    const std::string key = weights_key(arch_, slice_idx);
    if (!keeper_.is_on_drives(key) && store_->find(key) != nullptr) store_->remove(key);
  }
}

// Bytes of another form would be read as numbers all the same.
void TrainingSession::require_same_state() const {
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch_); ++slice_idx) {
    const std::string key = optimizer_key(arch_, slice_idx);
    const SliceRef version = store_->find(key);
    if (version == nullptr) continue;  // it is there from the first update on
    const std::uint64_t wanted = keeper_.has(key) ? keeper_.size_bytes(key) : 0;
    if (version->size_bytes() == wanted) continue;
    throw InvalidInput(
        fmt::format("{} of the committed state has {} bytes, and {} in {} would have {}: go on with the dtype and the "
                    "optimizer that the run began with",
                    key, version->size_bytes(), describe(options_.schedule.optimizer),
                    dtype_name(options_.schedule.dtype), wanted));
  }
}

void TrainingSession::go_back(const std::string& snapshot, const std::vector<std::string>& dropped) {
  store_->restore(snapshot, dropped);
}

std::string TrainingSession::why_not_finite(std::span<const PackedDocuments> micro_batches) {
  wait();
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch_); ++slice_idx) {
    if (all_finite(weights(slice_idx), trained_dtype(arch_, options_.schedule.dtype))) continue;
    return fmt::format("the {} of {} hold infinities or NaN", arch_.adapter.exists() ? "adapter" : "weights",
                       slice_name(arch_, slice_idx));
  }
  const std::optional<std::size_t> slice_idx = runner_->find_not_finite(micro_batches, ready_);
  return fmt::format("what {} computes is infinite or NaN, though all {} are finite",
                     slice_idx ? slice_name(arch_, *slice_idx) : slice_name(arch_, head_slice(arch_, 0)),
                     arch_.adapter.exists() ? "adapters" : "weights");
}

void TrainingSession::require_finite(const StepResult& result, double norm,
                                     std::span<const PackedDocuments> micro_batches) {
  if (!std::isfinite(result.loss)) {
    throw NotFinite(fmt::format("the loss is not a finite number: {}", why_not_finite(micro_batches)));
  }
  // What is not finite goes on to the slices below: the last one is where it began.
  for (std::size_t slice_idx = result.squares.size(); slice_idx-- > 0;) {
    if (std::isfinite(result.squares[slice_idx])) continue;
    throw NotFinite(fmt::format("the gradients of {} are not finite numbers", slice_name(arch_, slice_idx)));
  }
  if (!std::isfinite(norm)) throw NotFinite("the norm of all gradients is not a finite number");
}

SessionStep TrainingSession::step(std::span<const PackedDocuments> micro_batches, const UpdateSettings& settings,
                                  const std::string& note) {
  const std::uint64_t dropout_seed = Random(options_.seed ^ static_cast<std::uint64_t>(settings.adam.step)).next();
  SessionStep step{.result = runner_->run(micro_batches, ready_, dropout_seed)};
  step.grad_norm = std::sqrt(step.result.squared_norm);
  require_finite(step.result, step.grad_norm, micro_batches);
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
  if (committed_note() == note) return;
  if (!commits_every_step_) keeper_.stage_memory();
  store_->commit(note);
}

std::vector<std::string> TrainingSession::snapshots() const {
  std::vector<std::string> names;
  for (const SnapshotInfo& info : store_->snapshots()) names.push_back(info.name);
  return names;
}

SessionUse TrainingSession::use() const {
  return {.device = {device_->arena_bytes() - device_->free_bytes(), device_->peak_bytes()},
          .host = {host_.used_bytes(), host_.peak_bytes()},
          .drives = {store_->taken_bytes(), store_->peak_taken_bytes()}};
}

bool TrainingSession::has_snapshot(const std::string& name) const {
  const std::vector<std::string> names = snapshots();
  return std::find(names.begin(), names.end(), name) != names.end();
}

void TrainingSession::keep_snapshot(const std::string& name) {
  drop_snapshot(name);
  store_->pin(name);
}

void TrainingSession::drop_snapshot(const std::string& name) {
  if (has_snapshot(name)) store_->unpin(name);
}

std::span<std::byte> TrainingSession::memory_for(std::size_t slice_idx) {
  const std::uint64_t room = round_up(trained_bytes(weight_keeping(), slice_idx), kBlockBytes);
  if (slice_memory_.size_bytes() < room) slice_memory_ = PageMemory(room);
  return slice_memory_.bytes().first(room);
}

std::span<const std::byte> TrainingSession::weights(std::size_t slice_idx) {
  const std::span<std::byte> memory = memory_for(slice_idx);
  read_trained(weight_keeping(), slice_idx, memory);
  return memory.first(trained_bytes(weight_keeping(), slice_idx));
}

std::span<const std::byte> TrainingSession::weights_in(const std::string& snapshot, std::size_t slice_idx) {
  const std::span<std::byte> memory = memory_for(slice_idx);
  if (memory.empty()) return {};
  const SliceRef version = store_->find_in_snapshot(snapshot, trained_key(arch_, slice_idx));
  CHECK(version != nullptr, "a snapshot has every slice");
  store_->read(*version, 0, memory).wait();
  store_->verify(*version, 0, memory);
  return memory.first(trained_bytes(weight_keeping(), slice_idx));
}

}  // namespace sluice
