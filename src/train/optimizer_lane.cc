// SPDX-License-Identifier: Apache-2.0
#include "train/optimizer_lane.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "model/adapter_layout.h"
#include "model/slice_layout.h"
#include "plan/step_memory.h"
#include "train/state_keys.h"
#include "train/window_update.h"

namespace sluice {
namespace {

std::uint64_t chunk_bytes_of(const SliceStore* store) { return store != nullptr ? store->chunk_bytes() : kBlockBytes; }

// Windows that threads share out together: enough for many of them.
constexpr std::size_t kTogether = 64;

}  // namespace

// Windows go through three stages in order; each holds its memory until its writes are through.
class OptimizerLane::Pass {
 public:
  Pass(OptimizerLane& lane, const AdamWSettings& settings, std::vector<SliceRef> gradients,
       std::vector<std::promise<void>>& promises)
      : lane_(lane),
        options_(lane.options_),
        arch_(*options_.arch),
        rule_{.adam = settings,
              .optimizer = options_.schedule->optimizer,
              .dtype = trained_dtype(arch_, options_.schedule->dtype),
              .momentum = options_.momentum,
              .seed = options_.seed},
        gradients_(std::move(gradients)),
        promises_(promises) {
    for (const Buffer& buffer : lane.windows_) free_.push_back(buffer.bytes());
  }

  void run() {
    for (const std::size_t slice_idx : lane_.trained_) begin_slice(slice_idx);
    while (!reading_.empty()) compute_oldest();
    while (!writing_.empty()) finish_oldest();
  }

 private:
  struct Slice {
    std::size_t slice_idx = 0;
    SliceLayout layout;
    std::optional<OptimizerLayout> state;
    Home weights = Home::kHost;
    Home optimizer = Home::kHost;
    Home gradients = Home::kHost;
    DType gradient_dtype = DType::kF32;
    SliceRef old_weights, old_optimizer, old_gradients;
    std::optional<SliceWriter> new_weights, new_optimizer;
    bool on_card = false;       // all of it
    std::int64_t begin_ns = 0;  // of its update there
  };

  struct Part {
    std::span<std::byte> bytes;  // in a window's memory, as stored; or where the run lives
    Ticket ticket;
    SliceRef version;  // read from; null: nothing was
    std::uint64_t offset = 0;
    std::span<std::byte> on_card;  // where it comes from and goes back to; empty: not there
    Event copied;                  // from there, or to there
  };

  struct Window {
    std::shared_ptr<Slice> slice;  // shared by its windows
    std::uint64_t first = 0;       // element
    std::uint64_t count = 0;
    std::span<std::byte> memory;  // given back when its writes are through; empty: all runs live in memory
    Part weights, optimizer, gradients;
    bool is_last = false;
    Event updated;  // by a card
  };

  void begin_slice(std::size_t slice_idx) {
    const SliceHomes& homes = options_.schedule->homes[slice_idx];
    auto slice = std::make_shared<Slice>();
    slice->slice_idx = slice_idx;
    slice->layout = trained_layout(arch_, slice_idx);
    slice->state = lane_.layout_of(slice_idx);
    slice->weights = lane_.weights_home(slice_idx);
    slice->optimizer = homes.optimizer;
    slice->gradients = homes.gradients;
    slice->gradient_dtype = gradient_home_dtype(arch_, *options_.schedule, slice_idx);
    slice->on_card = updates_on_card(arch_, *options_.schedule, slice_idx);
    RunKeeper& keeper = *options_.keeper;
    if (slice->weights == Home::kNvme) {
      slice->old_weights = keeper.version(trained_key(arch_, slice_idx));
      slice->new_weights.emplace(keeper.begin(trained_key(arch_, slice_idx)));
    }
    if (homes.optimizer == Home::kNvme && slice->state->run_bytes() > 0) {
      slice->old_optimizer = keeper.version(optimizer_key(arch_, slice_idx));  // null before the first update
      slice->new_optimizer.emplace(keeper.begin(optimizer_key(arch_, slice_idx)));
    }
    slice->old_gradients = std::move(gradients_[slice_idx]);

    const std::uint64_t num_elements = slice->layout.num_elements();
    const std::uint64_t step = slice->state->window_elements();
    for (std::uint64_t first = 0; first < num_elements; first += step) {
      Window window{.slice = slice, .first = first, .count = std::min(step, num_elements - first)};
      window.is_last = first + window.count == num_elements;
      start_reads(window);
      reading_.push_back(std::move(window));
    }
  }

  std::span<std::byte> take_memory() {
    // What is written gives its memory at once. Else half of the windows are on their way out, the rest on their way
    // in.
    const std::size_t most_writing = std::max<std::size_t>(1, lane_.windows_.size() / 2);
    while (free_.empty()) {
      if (reading_.empty() || writing_.size() >= most_writing || (!writing_.empty() && is_written(writing_.front()))) {
        finish_oldest();
      } else {
        compute_oldest();
      }
    }
    const std::span<std::byte> memory = free_.back();
    free_.pop_back();
    return memory;
  }

  void start_reads(Window& window) {
    const Slice& slice = *window.slice;
    const bool has_card = lane_.card_ != nullptr;
    const auto is_direct = [&](Home home) {
      return home == Home::kHost || (home == Home::kDevice && (slice.on_card || !has_card));
    };
    if (!is_direct(slice.weights) || !is_direct(slice.optimizer) || !is_direct(slice.gradients)) {
      window.memory = take_memory();
    }
    const std::uint64_t weight_bytes = size_bytes(rule_.dtype);
    const std::uint64_t step = slice.state->window_elements();
    std::span<std::byte> rest = window.memory;
    const auto part = [&](const std::string& key, Home home, const SliceRef& version, std::uint64_t offset,
                          std::uint64_t room, std::uint64_t used) {
      Part made{.version = version, .offset = offset};
      if (is_direct(home)) {
        made.bytes = options_.keeper->bytes(key).subspan(offset, used);
        return made;
      }
      if (home == Home::kDevice) {
        made.bytes = rest.first(used);
        rest = rest.subspan(room);
        made.on_card = options_.keeper->bytes(key).subspan(offset, used);
        lane_.from_card_->copy(made.bytes, made.on_card);
        made.copied = lane_.from_card_->record();
        return made;
      }
      const std::uint64_t total = round_up(options_.keeper->size_bytes(key), kBlockBytes);
      made.bytes = rest.first(std::min(room, total - offset));
      rest = rest.subspan(room);
      if (version) {
        made.ticket = options_.store->read(*version, offset, made.bytes);
      } else {
        std::memset(made.bytes.data(), 0, made.bytes.size());
      }
      return made;
    };
    const std::size_t slice_idx = slice.slice_idx;
    const std::uint64_t stride = slice.state->stride_bytes();
    window.weights = part(trained_key(arch_, slice_idx), slice.weights, slice.old_weights, window.first * weight_bytes,
                          step * weight_bytes, window.count * weight_bytes);
    if (stride > 0) {
      window.optimizer = part(optimizer_key(arch_, slice_idx), slice.optimizer, slice.old_optimizer,
                              window.first / step * stride, stride, stride);
    }
    const std::uint64_t gradient_bytes = size_bytes(slice.gradient_dtype);
    window.gradients = part(gradients_key(arch_, slice_idx), slice.gradients, slice.old_gradients,
                            window.first * gradient_bytes, step * gradient_bytes, window.count * gradient_bytes);
  }

  void arrive(Part& part) const {
    part.copied.wait();
    if (!part.version) return;
    part.ticket.wait();
    options_.store->verify(*part.version, part.offset, part.bytes);
  }

  void compute_oldest() {
    std::vector<Window> windows = take_oldest();
    for (Window& window : windows) {
      for (Part* part : {&window.weights, &window.optimizer, &window.gradients}) arrive(*part);
    }
    const Slice& slice = *windows.front().slice;
    if (slice.on_card) {
      update_on_card(std::move(windows.front()));
      return;
    }
    const std::int64_t begin_ns = options_.trace != nullptr ? options_.trace->now_ns() : 0;
    std::shared_ptr<void> shown;  // to a profiler, until the update is done
    if (options_.trace != nullptr) {
      shown = options_.trace->show(Lane::kCpuOptimizer, slice_name(arch_, slice.slice_idx));
    }
    update(*lane_.stream_, windows);
    lane_.stream_->synchronize();
    shown.reset();
    if (options_.trace != nullptr) {
      const Window& last = windows.back();
      const std::uint64_t first = windows.front().first;
      options_.trace->add({Lane::kCpuOptimizer, slice_name(arch_, slice.slice_idx), first,
                           last.first + last.count - first, begin_ns, 0});
    }
    for (Window& window : windows) {
      leave(window);
      writing_.push_back(std::move(window));
    }
    // In order, and as early as they can: the next step waits for slices that are done.
    while (!writing_.empty() && is_written(writing_.front())) finish_oldest();
  }

  // One, or several of a slice that wait for nothing.
  std::vector<Window> take_oldest() {
    std::vector<Window> windows;
    do {
      windows.push_back(std::move(reading_.front()));
      reading_.pop_front();
    } while (windows.size() < kTogether && windows.front().memory.empty() && !windows.front().slice->on_card &&
             !reading_.empty() && reading_.front().slice == windows.front().slice);
    return windows;
  }

  // Towards the drives or the card, where that is its home.
  void leave(Window& window) const {
    Slice& slice = *window.slice;
    if (slice.new_weights)
      window.weights.ticket = slice.new_weights->write(window.weights.offset, window.weights.bytes);
    if (slice.new_optimizer) {
      window.optimizer.ticket = slice.new_optimizer->write(window.optimizer.offset, window.optimizer.bytes);
    }
    for (Part* part : {&window.weights, &window.optimizer}) {
      if (part->on_card.empty()) continue;
      lane_.to_card_->copy(part->on_card, part->bytes);
      part->copied = lane_.to_card_->record();
    }
  }

  // The card goes on by itself, and is waited for where the slice ends.
  void update_on_card(Window window) {
    LaneTrace* const trace = options_.trace;
    const std::shared_ptr<Slice> slice = window.slice;  // outlives the marks around its update
    if (trace != nullptr && window.first == 0) {
      lane_.card_->run([trace, slice] { slice->begin_ns = trace->now_ns(); });
    }
    update(*lane_.card_, {&window, 1});
    if (trace != nullptr && window.is_last) {
      lane_.card_->run([trace, slice, name = slice_name(arch_, slice->slice_idx), count = window.first + window.count] {
        trace->add({Lane::kCompute, name, 0, count, slice->begin_ns, 0});
      });
    }
    if (window.is_last) window.updated = lane_.card_->record();
    writing_.push_back(std::move(window));
    while (!writing_.empty() && is_written(writing_.front())) finish_oldest();
  }

  static bool is_written(const Window& window) {
    return window.weights.ticket.done() && window.optimizer.ticket.done() && window.weights.copied.passed() &&
           window.optimizer.copied.passed() && window.updated.passed();
  }

  void update(Stream& stream, std::span<const Window> windows) const {
    std::vector<UpdateWindow> updated;
    updated.reserve(windows.size());
    for (const Window& window : windows) {
      updated.push_back({.slice_idx = window.slice->slice_idx,
                         .layout = &window.slice->layout,
                         .state = &*window.slice->state,
                         .first = window.first,
                         .count = window.count,
                         .weights = window.weights.bytes,
                         .optimizer = window.optimizer.bytes,
                         .gradients = window.gradients.bytes,
                         .gradient_dtype = window.slice->gradient_dtype});
    }
    update_windows(stream, rule_, updated);
  }

  void finish_oldest() {
    Window window = std::move(writing_.front());
    writing_.pop_front();
    Slice& slice = *window.slice;
    if (slice.new_weights) window.weights.ticket.wait();
    if (slice.new_optimizer) window.optimizer.ticket.wait();
    for (const Event* event : {&window.weights.copied, &window.optimizer.copied, &window.updated}) event->wait();
    if (!window.memory.empty()) free_.push_back(window.memory);
    if (!window.is_last) return;
    if (slice.new_weights) options_.keeper->replace(trained_key(arch_, slice.slice_idx), std::move(*slice.new_weights));
    if (slice.new_optimizer) {
      options_.keeper->replace(optimizer_key(arch_, slice.slice_idx), std::move(*slice.new_optimizer));
    }
    promises_[slice.slice_idx].set_value();
    ++num_done_;
  }

 public:
  std::size_t num_done() const { return num_done_; }

 private:
  OptimizerLane& lane_;
  const Options& options_;
  const Architecture& arch_;
  UpdateRule rule_;
  std::vector<SliceRef> gradients_;  // null for those that live in memory
  std::vector<std::promise<void>>& promises_;
  std::vector<std::span<std::byte>> free_;
  std::deque<Window> reading_;
  std::deque<Window> writing_;
  std::size_t num_done_ = 0;  // slices, which are done in order
};

OptimizerLane::OptimizerLane(const Options& options)
    : options_(options),
      cpu_(Device::kAlignment, options.num_threads),
      stream_(cpu_.make_stream("cpu-optimizer")),
      lane_(1, "lane-optimizer") {
  const Architecture& arch = *options.arch;
  CHECK((options.momentum > 0) == (options.schedule->optimizer == OptimizerState::kSgdMomentum),
        "a velocity where there is momentum");
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    if (!is_trained(arch, slice_idx)) continue;
    trained_.push_back(slice_idx);
    if (layout_of(slice_idx).run_bytes() == 0) continue;
    options.keeper->add(optimizer_key(arch, slice_idx), layout_of(slice_idx).run_bytes(),
                        options.schedule->homes[slice_idx].optimizer, Lifetime::kDurable);
  }
  Device& device = options.keeper->device();
  CHECK(device.kind() == options.schedule->device, "a schedule for this kind of device");
  if (device.kind() != DeviceKind::kCpu) {
    card_ = device.make_stream("optimizer");
    from_card_ = device.make_stream("optimizer-down");
    to_card_ = device.make_stream("optimizer-up");
  }
  CHECK(options.num_windows > 0, "windows to work in");
  const std::size_t num_windows = num_optimizer_windows(arch, *options.schedule, options.num_windows);
  if (num_windows == 0) return;
  const std::uint64_t bytes = optimizer_window_bytes(arch, *options.schedule, chunk_bytes_of(options.store));
  reservation_ = options.host->reserve(bytes * num_windows, "the optimizer's windows");
  for (std::size_t idx = 0; idx < num_windows; ++idx) windows_.push_back(device.allocate_pinned(bytes));
}

OptimizerLane::~OptimizerLane() = default;

OptimizerLayout OptimizerLane::layout_of(std::size_t slice_idx) const {
  return optimizer_layout(*options_.arch, *options_.schedule, chunk_bytes_of(options_.store), slice_idx);
}

Home OptimizerLane::weights_home(std::size_t slice_idx) const {
  return options_.keeper->home(trained_key(*options_.arch, slice_idx));
}

std::vector<std::shared_future<void>> OptimizerLane::update(const AdamWSettings& settings,
                                                            std::function<void()> when_done) {
  wait();
  // Shared by the lane's task and, through their futures, by whoever waits.
  auto promises = std::make_shared<std::vector<std::promise<void>>>(num_slices(*options_.arch));
  std::vector<std::shared_future<void>> ready(promises->size());
  for (const std::size_t slice_idx : trained_) ready[slice_idx] = (*promises)[slice_idx].get_future().share();
  // Taken here, not in the lane: the next step sends its own gradients before this one's are all used.
  std::vector<SliceRef> gradients(ready.size());
  for (const std::size_t slice_idx : trained_) {
    if (options_.schedule->homes[slice_idx].gradients != Home::kNvme) continue;
    gradients[slice_idx] = options_.keeper->version(gradients_key(*options_.arch, slice_idx));
  }
  auto done = std::make_shared<std::promise<void>>();
  done_ = done->get_future().share();
  lane_.run(
      [this, settings, promises, done, gradients = std::move(gradients), when_done = std::move(when_done)]() mutable {
        std::size_t num_done = 0;
        try {
          {
            // Gradients are let go as they are used: the next step's need their space while this one is committed.
            Pass pass(*this, settings, std::move(gradients), *promises);
            try {
              pass.run();
            } catch (...) {
              num_done = pass.num_done();
              throw;
            }
            num_done = pass.num_done();
          }
          if (when_done) when_done();
          done->set_value();
        } catch (...) {  // carried to whoever waits for weights, or for the whole
          for (std::size_t idx = num_done; idx < trained_.size(); ++idx) {
            (*promises)[trained_[idx]].set_exception(std::current_exception());
          }
          done->set_exception(std::current_exception());
        }
      });
  return ready;
}

void OptimizerLane::wait() {
  if (done_.valid()) done_.get();
}

}  // namespace sluice
