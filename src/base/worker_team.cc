// SPDX-License-Identifier: Apache-2.0
#include "base/worker_team.h"

#include <string>
#include <system_error>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace sluice {
namespace {

// A loop often follows the last within microseconds; waking a sleeping thread takes longer than that. Kept short, so
// that a machine with fewer free cores than threads loses little.
constexpr int kSpinsBeforeSleep = 2000;

// Of loop_: its number above, then whether it is open, then the threads that are at it.
constexpr std::uint64_t kOneLoop = std::uint64_t{1} << 32;
constexpr std::uint64_t kIsOpen = std::uint64_t{1} << 31;
constexpr std::uint64_t kThreads = kIsOpen - 1;

std::uint64_t number(std::uint64_t loop) { return loop / kOneLoop; }

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
  } catch (const std::system_error& error) {
    const std::size_t num_started = threads_.size() + 1;
    close();
    throw IoError(error.code().value(),
                  fmt::format("the system starts {} of {} threads, no more: ask for fewer (threads), "
                              "or raise the limit (ulimit -u, the pids limit of the container)",
                              num_started, num_threads));
  } catch (...) {
    close();
    throw;
  }
}

WorkerTeam::~WorkerTeam() { close(); }

void WorkerTeam::close() {
  closing_ = true;
  open_loop();
  for (std::thread& thread : threads_) thread.join();
}

// The last one is closed and left, so that nobody else changes loop_.
void WorkerTeam::open_loop() {
  {
    const std::lock_guard lock(mutex_);  // so that a thread is either before its check or asleep
    const std::uint64_t next = (number(loop_.load(std::memory_order_relaxed)) + 1) * kOneLoop;
    loop_.store(next | kIsOpen, std::memory_order_release);
  }
  start_.notify_all();
}

bool WorkerTeam::is_left() const { return (loop_.load(std::memory_order_acquire) & kThreads) == 0; }

void WorkerTeam::for_each(std::int64_t num_items, const Item& item) {
  if (num_items <= 0) return;
  const std::lock_guard caller(callers_);
  if (threads_.empty() || num_items == 1) {
    for (std::int64_t idx = 0; idx < num_items; ++idx) item(idx, 0);
    return;
  }
  item_ = &item;
  num_items_ = num_items;
  next_item_.store(0, std::memory_order_relaxed);
  open_loop();
  take_items(0);
  loop_.fetch_and(~kIsOpen, std::memory_order_acq_rel);
  for (int spin = 0; spin < kSpinsBeforeSleep; ++spin) {
    if (is_left()) return;
    pause_core();
  }
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return is_left(); });
}

void WorkerTeam::take_items(std::size_t worker_idx) {
  for (;;) {
    const std::int64_t idx = next_item_.fetch_add(1, std::memory_order_relaxed);
    if (idx >= num_items_) return;
    (*item_)(idx, worker_idx);
  }
}

bool WorkerTeam::join_loop(std::uint64_t loop_idx) {
  std::uint64_t loop = loop_.load(std::memory_order_acquire);
  while (number(loop) == loop_idx && (loop & kIsOpen) != 0) {
    if (loop_.compare_exchange_weak(loop, loop + 1, std::memory_order_acq_rel, std::memory_order_acquire)) return true;
  }
  return false;
}

void WorkerTeam::work(std::size_t worker_idx) {
  std::uint64_t seen = 0;
  const auto is_another = [&] { return number(loop_.load(std::memory_order_acquire)) != seen; };
  for (;;) {
    for (int spin = 0; spin < kSpinsBeforeSleep && !is_another(); ++spin) pause_core();
    if (!is_another()) {
      std::unique_lock lock(mutex_);
      start_.wait(lock, is_another);
    }
    // What the loop is was written before its number, and changes only when this thread has left it: no need for the
    // mutex, for which a team that spins would queue up.
    seen = number(loop_.load(std::memory_order_acquire));
    if (closing_) return;
    if (!join_loop(seen)) continue;
    take_items(worker_idx);
    if (((loop_.fetch_sub(1, std::memory_order_acq_rel) - 1) & (kIsOpen | kThreads)) == 0) {
      const std::lock_guard lock(mutex_);  // so that the caller is either before its check or asleep
      done_.notify_one();
    }
  }
}

}  // namespace sluice
