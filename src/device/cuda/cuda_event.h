// SPDX-License-Identifier: Apache-2.0
// A place in a CUDA stream, and the raw event that stands for it. Threads that wait sleep: the host's cores have work.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <cuda_runtime_api.h>

#include "device/cuda/device_failures.h"
#include "device/device.h"

namespace sluice::cuda {

// Owns a cudaEvent_t.
class RawEvent {
 public:
  enum class Timing : bool { kNo, kYes };
  explicit RawEvent(Timing timing = Timing::kNo);  // on the current card
  ~RawEvent();
  RawEvent(RawEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  RawEvent& operator=(RawEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  RawEvent(const RawEvent&) = delete;
  RawEvent& operator=(const RawEvent&) = delete;

  void record(cudaStream_t stream);
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaEventState : public Event::State {
 public:
  // `event` is recorded already, as that piece of work.
  CudaEventState(RawEvent event, std::uint64_t sequence, std::shared_ptr<const DeviceFailures> failures)
      : event_(std::move(event)), sequence_(sequence), failures_(std::move(failures)) {}

  bool passed() const override;
  void wait() const override;
  cudaEvent_t raw() const { return event_.get(); }

 private:
  RawEvent event_;
  std::uint64_t sequence_;
  std::shared_ptr<const DeviceFailures> failures_;  // shared with the device and its streams
};

}  // namespace sluice::cuda
