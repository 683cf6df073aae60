// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <pthread.h>

#include <utility>

namespace sluice {

ThreadPool::ThreadPool(std::size_t num_threads, const std::string& name) {
  try {
    for (std::size_t i = 0; i < num_threads; ++i) {
      threads_.emplace_back([this, name] {
        name_this_thread(name);
        work();
      });
    }
  } catch (...) {  // the system has no more threads: end those there are, then say so
    close();
    throw;
  }
}

ThreadPool::~ThreadPool() { close(); }

void ThreadPool::close() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(std::function<void()> task) {
  {
    const std::scoped_lock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void ThreadPool::work() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

void name_this_thread(const std::string& name) { pthread_setname_np(pthread_self(), name.substr(0, 15).c_str()); }

}  // namespace sluice
