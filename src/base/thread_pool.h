// SPDX-License-Identifier: Apache-2.0
// A fixed number of threads that run tasks in the order they were given. Destruction runs what is queued, then joins.
// Tasks must not throw: a task that can fail carries its failure to whoever waits for it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sluice {

class ThreadPool {
 public:
  ThreadPool(std::size_t num_threads, const std::string& name);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void run(std::function<void()> task);  // thread-safe

 private:
  void work();
  void close();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

// Names the calling thread for debuggers and profilers; the kernel keeps 15 characters.
void name_this_thread(const std::string& name);

}  // namespace sluice
