// SPDX-License-Identifier: Apache-2.0
// A stream of a card. An operation's kernels reach it like this (ops/cuda/): inside put(), they launch on handle(),
// take memory from scratch() for as long as they run, and write faults to fault_slot(). Nothing here waits for the card
// but destruction, and copies of host memory that is not pinned. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <cuda_runtime_api.h>

#include "device/cuda/device_failures.h"
#include "device/cuda/host_lane.h"
#include "device/cuda/kernel_fault.h"
#include "device/cuda/profiler_range.h"
#include "device/cuda/scratch.h"
#include "device/cuda/watch_lane.h"
#include "device/device.h"

namespace sluice::cuda {

class CudaDevice;

class CudaStream : public Stream {
 public:
  // The device outlives the stream.
  CudaStream(CudaDevice& device, std::string name);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  Kernels* kernels() override;
  void copy(std::span<std::byte> to, std::span<const std::byte> from) override;
  void clear(std::span<std::byte> memory) override;
  void run(std::function<void()> work) override;
  Event record() override;
  void wait(const Event& event) override;
  void watch(StreamWatcher* watcher) override;
  void label(std::string text) override;
  void tell() override;

  // One piece of work: issue() puts kernels on handle(), alone on this stream while it does and with its card current.
  // What was launched wrongly is thrown here, as DeviceError that names `what`.
  template <typename Issue>
  void put(std::string_view what, const Issue& issue) {
    const std::scoped_lock lock(mutex_);
    const SubmissionRange range(name_, label_.empty() ? what : label_);
    begin_work();
    issue();
    end_work(what);
  }

  // The rest is for what runs inside put().
  CudaDevice& device() const { return device_; }
  cudaStream_t handle() const { return stream_; }
  FaultSlot fault_slot() const { return failures_->slot(sequence_); }
  // Device memory for this piece of work alone, at least so many bytes, whatever they hold. Taken once in a piece of
  // work, and kept until all its kernels are launched. Throws OutOfBudget that names `who`.
  Scratch scratch(std::uint64_t size_bytes, std::string_view who);

 private:
  void begin_work();
  void end_work(std::string_view what);
  void end_piece();
  void await_all();
  void run_locked(std::function<void()> work, StreamWatcher* watcher);
  void copy_staged(std::span<std::byte> to, std::span<const std::byte> from);

  CudaDevice& device_;
  std::string name_;
  std::shared_ptr<DeviceFailures> failures_;  // shared with the device and with events
  cudaStream_t stream_ = nullptr;
  std::mutex mutex_;
  StreamWatcher* watcher_ = nullptr;
  std::string label_;
  // A piece is all that is put between two places where the stream waits, is waited for or is labelled.
  bool is_in_piece_ = false;
  std::uint64_t sequence_ = 0;  // of the work that is being put
  std::unique_ptr<HostLane> host_;
  std::unique_ptr<WatchLane> watch_;  // null until somebody watches
  struct FreeHost {
    void operator()(std::byte* memory) const { cudaFreeHost(memory); }
  };
  std::unique_ptr<std::byte, FreeHost> slot_;  // pinned staging slot for pageable memory; null: all memory is pinned
};

}  // namespace sluice::cuda
