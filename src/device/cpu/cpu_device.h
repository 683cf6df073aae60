// SPDX-License-Identifier: Apache-2.0
// The CPU as a device. Its memory is an arena of exactly the size given, a stream is a thread.
#pragma once

#include <memory>
#include <mutex>

#include "base/page_memory.h"
#include "base/range_allocator.h"
#include "base/worker_team.h"
#include "device/device.h"

namespace sluice {

class CpuDevice : public Device {
 public:
  // num_threads: those that kernels use, whatever the number of streams.
  explicit CpuDevice(std::uint64_t arena_bytes, std::size_t num_threads = 1);
  ~CpuDevice() override;
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  std::string_view name() const override { return "cpu"; }
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::unique_ptr<Stream> make_stream(const std::string& name) override;
  Buffer allocate(std::uint64_t size_bytes, std::string_view who) override;
  Buffer allocate_pinned(std::uint64_t size_bytes) override;
  std::uint64_t arena_bytes() const override { return arena_.size_bytes(); }
  std::uint64_t free_bytes() const override;
  std::uint64_t peak_bytes() const override;

 private:
  WorkerTeam team_;
  mutable std::mutex mutex_;
  PageMemory arena_;
  RangeAllocator ranges_;
  std::uint64_t peak_bytes_ = 0;
};

}  // namespace sluice
