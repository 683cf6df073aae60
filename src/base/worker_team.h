// SPDX-License-Identifier: Apache-2.0
// Threads that share one loop at a time. Which thread runs which item is not fixed, so an item's result must depend on
// the item alone; loops that reduce do so over items of fixed size, merged in item order. That is how results stay the
// same for any number of threads. One caller at a time; the caller works too, and waits for nobody who has not begun:
// where other processes have the cores, a short loop is done before its threads get one. Items must not throw.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {

class WorkerTeam {
 public:
  // num_threads counts the caller: a team of 1 starts no thread.
  explicit WorkerTeam(std::size_t num_threads);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  std::size_t num_threads() const { return threads_.size() + 1; }

  // Runs item(item_idx, worker_idx) for every item in [0, num_items), worker_idx < num_threads(); returns when all ran.
  // Items begin in their order, so that one may wait for what items before it do.
  using Item = std::function<void(std::int64_t item_idx, std::size_t worker_idx)>;
  void for_each(std::int64_t num_items, const Item& item);

 private:
  void close();
  void open_loop();
  void work(std::size_t worker_idx);
  bool join_loop(std::uint64_t loop_idx);
  bool is_left() const;
  void take_items(std::size_t worker_idx);

  std::mutex callers_;  // a second caller waits for the first

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  // Which loop it is, whether a thread may still begin with it, and how many threads are at it.
  std::atomic<std::uint64_t> loop_{0};
  std::atomic<std::int64_t> next_item_{0};
  // Of the loop; they change when no thread is at it.
  std::int64_t num_items_ = 0;
  const Item* item_ = nullptr;
  std::atomic<bool> closing_{false};
  std::vector<std::thread> threads_;
};

}  // namespace sluice
