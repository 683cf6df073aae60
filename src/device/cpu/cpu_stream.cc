// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/cpu_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/thread_pool.h"
#include "device/cpu/streaming_copy.h"

namespace sluice {
namespace {

class CpuEventState : public Event::State {
 public:
  bool passed() const override {
    const std::scoped_lock lock(mutex_);
    return passed_;
  }

  void wait() const override {
    std::unique_lock lock(mutex_);
    reached_.wait(lock, [this] { return passed_; });
    if (failure_) std::rethrow_exception(failure_);
  }

  void pass(std::exception_ptr failure) {
    const std::scoped_lock lock(mutex_);
    passed_ = true;
    failure_ = std::move(failure);
    reached_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable reached_;
  bool passed_ = false;
  std::exception_ptr failure_;
};

}  // namespace

CpuStream::CpuStream(const std::string& name, WorkerTeam& team) : team_(team) {
  thread_ = std::thread([this, name] {
    name_this_thread(name);
    work();
  });
}

CpuStream::~CpuStream() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void CpuStream::copy(std::span<std::byte> to, std::span<const std::byte> from) {
  CHECK(to.size() == from.size(), "a copy has two ends of one size");
  run([to, from] { streaming_copy(to, from); });
}

void CpuStream::clear(std::span<std::byte> memory) {
  run([memory] { std::fill(memory.begin(), memory.end(), std::byte{0}); });
}

void CpuStream::run(std::function<void()> work) {
  push([this, watcher = watcher_.load(), work = std::move(work)] {
    if (watcher != nullptr) watcher->begins();
    attempt(work);
    if (watcher != nullptr) watcher->ends();
  });
}

void CpuStream::label(std::string text) {
  StreamWatcher* const watcher = watcher_.load();
  if (watcher != nullptr) push([watcher, text = std::move(text)] { watcher->labelled(text); });
}

void CpuStream::attempt(const std::function<void()>& work) {
  if (failure_) return;
  try {
    work();
  } catch (...) {  // whatever it is, it is rethrown at the next wait
    failure_ = std::current_exception();
  }
}

Event CpuStream::record() {
  const auto state = std::make_shared<CpuEventState>();
  push([this, state] { state->pass(failure_); });
  return Event(state);
}

void CpuStream::wait(const Event& event) {
  // Even one that has passed: it may carry a failure.
  push([this, event] { attempt([&event] { event.wait(); }); });
}

void CpuStream::push(std::function<void()> step) {
  {
    const std::scoped_lock lock(mutex_);
    CHECK(!closing_, "a stream takes no work while it is destroyed");
    steps_.push_back(std::move(step));
  }
  wake_.notify_one();
}

void CpuStream::work() {
  while (true) {
    std::function<void()> step;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return closing_ || !steps_.empty(); });
      if (steps_.empty()) return;
      step = std::move(steps_.front());
      steps_.pop_front();
    }
    step();
  }
}

}  // namespace sluice
