// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/watch_lane.h"

#include "base/clock.h"
#include "base/thread_pool.h"
#include "device/cuda/cuda_error.h"

namespace sluice::cuda {
namespace {

constexpr std::int64_t kSoonNs = 1'000'000'000;  // the clocks have not drifted apart yet

}  // namespace

WatchLane::WatchLane(const std::string& name, int card_idx, cudaStream_t stream)
    : card_idx_(card_idx), stream_(stream) {
  compare_clocks();
  thread_ = std::thread([this, name] {
    name_this_thread(name);
    run();
  });
}

WatchLane::~WatchLane() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WatchLane::compare_clocks() {
  auto moment = std::make_shared<Moment>(Moment{.event = RawEvent(RawEvent::Timing::kYes)});
  moment->event.record(stream_);
  require(cudaEventSynchronize(moment->event.get()), "comparing the card's clock with the host's");
  moment->ns = SteadyClock().now_ns();
  base_ = std::move(moment);
}

RawEvent WatchLane::take_event() {
  const std::scoped_lock lock(mutex_);
  if (spare_.empty()) return RawEvent(RawEvent::Timing::kYes);
  RawEvent event = std::move(spare_.back());
  spare_.pop_back();
  return event;
}

void WatchLane::begin_piece() {
  begun_.push_back(take_event());
  begun_.back().record(stream_);
}

void WatchLane::end_piece(StreamWatcher* watcher) {
  begun_.push_back(take_event());
  begun_.back().record(stream_);
  push({.watcher = watcher, .base = base_, .ends = std::exchange(begun_, {})});
}

void WatchLane::label(StreamWatcher* watcher, std::string text) {
  push({.watcher = watcher, .label = std::move(text)});
}

void WatchLane::add(StreamWatcher* watcher, std::future<Times> times) {
  push({.watcher = watcher, .times = std::move(times)});
}

void WatchLane::push(Item item) {
  {
    const std::scoped_lock lock(mutex_);
    items_.push_back(std::move(item));
  }
  changed_.notify_all();
}

void WatchLane::drain() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return items_.empty(); });
  }
  if (SteadyClock().now_ns() - base_->ns > kSoonNs) compare_clocks();
}

void WatchLane::run() {
  cudaSetDevice(card_idx_);
  while (true) {
    Item* item = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closing_ || !items_.empty(); });
      if (items_.empty()) return;
      item = &items_.front();  // a deque's first stays where it is
    }
    tell(*item);
    {
      const std::scoped_lock lock(mutex_);
      for (RawEvent& event : item->ends) spare_.push_back(std::move(event));
      items_.pop_front();
    }
    changed_.notify_all();
  }
}

// A lost card has no more to tell.
void WatchLane::tell(Item& item) {
  if (item.times.valid()) {
    try {
      const Times times = item.times.get();
      item.watcher->worked(times.first, times.second);
    } catch (const std::future_error&) {  // NOLINT(bugprone-empty-catch): it never ran
    }
    return;
  }
  if (item.ends.empty()) {
    item.watcher->labelled(item.label);
    return;
  }
  if (cudaEventSynchronize(item.ends[1].get()) != cudaSuccess) return;
  std::int64_t ns[2] = {};
  for (std::size_t idx = 0; idx < 2; ++idx) {
    float ms = 0;
    if (cudaEventElapsedTime(&ms, item.base->event.get(), item.ends[idx].get()) != cudaSuccess) return;
    ns[idx] = item.base->ns + static_cast<std::int64_t>(static_cast<double>(ms) * 1e6);
  }
  item.watcher->worked(ns[0], ns[1]);
}

}  // namespace sluice::cuda
