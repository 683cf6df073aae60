// SPDX-License-Identifier: Apache-2.0
// What went wrong on a device, found when the host looks: an exception of host work, or a fault that a kernel wrote
// down because it met data that it must not compute with. Pieces of work count through all streams of the device; the
// first failure rides on every event recorded after the work that failed, of whichever stream, so a stream that waited
// for another needs no list of whom it waited for. Shared by the device, its streams and their events. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>

#include "device/cuda/kernel_fault.h"

namespace sluice::cuda {

class DeviceFailures {
 public:
  // On the current card.
  DeviceFailures();
  ~DeviceFailures();
  DeviceFailures(const DeviceFailures&) = delete;
  DeviceFailures& operator=(const DeviceFailures&) = delete;

  // The number of the next piece of work, or event; from 1.
  std::uint64_t next_sequence() { return ++sequence_; }
  // Where the kernels of that piece of work write a fault.
  FaultSlot slot(std::uint64_t sequence) const { return {.fault = fault_on_device_, .sequence = sequence}; }

  void add(std::uint64_t sequence, std::exception_ptr failure);
  // Null, or what failed in work before `sequence`.
  std::exception_ptr before(std::uint64_t sequence) const;

 private:
  std::atomic<std::uint64_t> sequence_ = 0;
  mutable std::mutex mutex_;
  std::exception_ptr failure_;
  std::uint64_t failed_at_ = 0;
  KernelFault* fault_ = nullptr;            // pinned, and
  KernelFault* fault_on_device_ = nullptr;  // as kernels see it
};

}  // namespace sluice::cuda
