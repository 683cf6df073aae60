// SPDX-License-Identifier: Apache-2.0
#include "base/worker_team.h"

#include <string>

#include "base/check.h"
#include "base/thread_pool.h"

namespace sluice {
namespace {

// A loop often follows the last within microseconds; waking a sleeping thread takes longer than that. Kept short, so
// that a machine with fewer free cores than threads loses little.
constexpr int kSpinsBeforeSleep = 2000;

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

WorkerTeam::WorkerTeam(std::size_t num_threads) {
  CHECK(num_threads > 0, "a team has its caller at least");
  try {
    threads_.reserve(num_threads - 1);
    for (std::size_t idx = 1; idx < num_threads; ++idx) {
      threads_.emplace_back([this, idx] {
        name_this_thread("worker-" + std::to_string(idx));
        work(idx);
      });
    }
  } catch (...) {  // the system has no more threads: end those there are, then say so
    close();
    throw;
  }
}

WorkerTeam::~WorkerTeam() { close(); }

void WorkerTeam::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    loop_count_.fetch_add(1);
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerTeam::for_each(std::int64_t num_items, const Item& item) {
  if (num_items <= 0) return;
  const std::lock_guard caller(callers_);
  if (threads_.empty() || num_items == 1) {
    for (std::int64_t idx = 0; idx < num_items; ++idx) item(idx, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    item_ = &item;
    num_items_ = num_items;
    next_item_.store(0, std::memory_order_relaxed);
    busy_.store(threads_.size(), std::memory_order_relaxed);
    loop_count_.fetch_add(1, std::memory_order_release);
  }
  start_.notify_all();
  take_items(0);
  for (int spin = 0; spin < kSpinsBeforeSleep; ++spin) {
    if (busy_.load(std::memory_order_acquire) == 0) return;
    pause_core();
  }
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_.load(std::memory_order_acquire) == 0; });
}

void WorkerTeam::take_items(std::size_t worker_idx) {
  for (;;) {
    const std::int64_t idx = next_item_.fetch_add(1, std::memory_order_relaxed);
    if (idx >= num_items_) return;
    (*item_)(idx, worker_idx);
  }
}

void WorkerTeam::work(std::size_t worker_idx) {
  std::uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpinsBeforeSleep && loop_count_.load(std::memory_order_acquire) == seen; ++spin) {
      pause_core();
    }
    if (loop_count_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return loop_count_.load(std::memory_order_acquire) != seen; });
    }
    // What the loop is was written before its count, and changes only when this thread has left it: no need for the
    // mutex, for which a team that spins would queue up.
    seen = loop_count_.load(std::memory_order_acquire);
    if (closing_) return;
    take_items(worker_idx);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      const std::lock_guard lock(mutex_);  // so that the caller is either before its check or asleep
      done_.notify_one();
    }
  }
}

}  // namespace sluice
