// SPDX-License-Identifier: Apache-2.0
// A thread that runs work in order; kernels share their loops with the device's team. After a failure it skips what
// follows: every later event carries that failure.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "base/worker_team.h"
#include "device/device.h"

namespace sluice {

class CpuStream : public Stream {
 public:
  // The team outlives the stream.
  CpuStream(const std::string& name, WorkerTeam& team);
  ~CpuStream() override;
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  WorkerTeam& team() const { return team_; }

  void copy(std::span<std::byte> to, std::span<const std::byte> from) override;
  void clear(std::span<std::byte> memory) override;
  void run(std::function<void()> work) override;
  Event record() override;
  void wait(const Event& event) override;
  void watch(StreamWatcher* watcher) override { watcher_.store(watcher); }
  void label(std::string text) override;
  void tell() override {}

 private:
  void push(std::function<void()> step);
  void attempt(const std::function<void()>& work);  // in the thread
  void work();

  WorkerTeam& team_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> steps_;
  bool closing_ = false;
  std::atomic<StreamWatcher*> watcher_ = nullptr;
  std::exception_ptr failure_;  // the thread's alone
  std::thread thread_;
};

}  // namespace sluice
