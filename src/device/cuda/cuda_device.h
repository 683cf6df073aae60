// SPDX-License-Identifier: Apache-2.0
// A CUDA card as a device. Its arena is allocated at once, exactly the bytes asked for; buffers and kernel scratch are
// carved from it. Pinned memory is page memory registered with the driver, so direct I/O may use it. If the driver
// limits pinned memory, large buffers beyond the limit are pageable, and each stream copies them through a staging
// slot. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/range_allocator.h"
#include "device/cuda/device_failures.h"
#include "device/cuda/host_pins.h"
#include "device/cuda/profiler_range.h"
#include "device/cuda/scratch.h"
#include "device/cuda_plugin.h"
#include "device/device.h"

namespace sluice::cuda {

class CudaDevice : public Device {
 public:
  explicit CudaDevice(const CudaDeviceOptions& options);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::string_view name() const override { return name_; }
  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::unique_ptr<Stream> make_stream(const std::string& name) override;
  Buffer allocate(std::uint64_t size_bytes, std::string_view who) override;
  Buffer allocate_pinned(std::uint64_t size_bytes) override;
  std::uint64_t arena_bytes() const override { return arena_.size(); }
  std::uint64_t free_bytes() const override;
  std::uint64_t peak_bytes() const override;
  DirectStorageFinding open_direct_storage(DirectWay way) override { return open_direct_(way); }
  StartProfilerRange profiler_ranges() const override { return start_range; }

  // Once, before there are streams. A shared_ptr for its deleter alone: this room does not know what kernels are.
  void use_kernels(std::shared_ptr<Kernels> kernels) { kernels_ = std::move(kernels); }
  Kernels* kernels() const { return kernels_.get(); }
  // Once, too, for the same reason.
  void use_direct_storage(std::function<DirectStorageFinding(DirectWay)> open) { open_direct_ = std::move(open); }

  int card_idx() const { return card_idx_; }
  std::span<std::byte> arena() const { return arena_; }
  int num_multiprocessors() const { return num_multiprocessors_; }
  // Upper bound on the shared memory of a thread block (opt-in).
  int shared_bytes_per_block() const { return shared_bytes_per_block_; }
  const HostPins& host_pins() const { return *host_pins_; }
  // Every thread that calls CUDA for this card does so first.
  void make_current() const;
  ScratchMemory& scratch() { return *scratch_; }
  std::shared_ptr<DeviceFailures> failures() const { return failures_; }

 private:
  std::byte* take_arena(std::uint64_t size_bytes) const;

  int card_idx_;
  std::string name_;
  int num_multiprocessors_ = 0;
  int shared_bytes_per_block_ = 0;
  std::span<std::byte> arena_;
  mutable std::mutex mutex_;
  RangeAllocator ranges_;
  std::uint64_t peak_bytes_ = 0;
  std::shared_ptr<HostPins> host_pins_;       // shared with buffers of host memory, which may outlive the device
  std::shared_ptr<DeviceFailures> failures_;  // shared with streams and events
  std::unique_ptr<ScratchMemory> scratch_;
  std::shared_ptr<Kernels> kernels_;
  std::function<DirectStorageFinding(DirectWay)> open_direct_;
};

}  // namespace sluice::cuda
