// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <utility>

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include "base/check.h"
#include "base/error.h"
#include "base/page_memory.h"
#include "base/units.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_stream.h"

namespace sluice::cuda {
namespace {

// Page memory that the driver knows of.
class PinnedPages {
 public:
  explicit PinnedPages(std::uint64_t size_bytes) : pages_(size_bytes) {
    if (pages_.size_bytes() == 0) return;
    pages_.populate();
    const cudaError_t error =
        cudaHostRegister(pages_.bytes().data(), pages_.size_bytes(), cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error != cudaSuccess) {
      throw_cuda_error(error, fmt::format("pinning {} of host memory", format_bytes(size_bytes)));
    }
  }
  ~PinnedPages() {
    if (pages_.size_bytes() != 0) cudaHostUnregister(pages_.bytes().data());
  }
  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;

  std::span<std::byte> bytes() const { return pages_.bytes(); }

 private:
  PageMemory pages_;
};

}  // namespace

CudaDevice::CudaDevice(const CudaDeviceOptions& options)
    : card_idx_(options.card_idx),
      ranges_(round_down(options.arena_bytes, kAlignment), kAlignment),
      host_pins_(std::make_shared<HostPins>(options.pinnable_bytes)) {
  int num_cards = 0;
  require(cudaGetDeviceCount(&num_cards), "cudaGetDeviceCount");
  if (card_idx_ < 0 || card_idx_ >= num_cards) {
    throw DeviceError(fmt::format("card {} is asked for, but there are {}, counted from 0", card_idx_, num_cards));
  }
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, card_idx_), "cudaGetDeviceProperties");
  name_ = properties.name;
  num_multiprocessors_ = properties.multiProcessorCount;
  shared_bytes_per_block_ = static_cast<int>(properties.sharedMemPerBlockOptin);
  if (const int pretended = options.pretend.shared_bytes_per_block; pretended > 0) {
    shared_bytes_per_block_ = std::min(shared_bytes_per_block_, pretended);
  }
  make_current();
  failures_ = std::make_shared<DeviceFailures>();
  arena_ = {take_arena(ranges_.size()), ranges_.size()};
  try {
    scratch_ = std::make_unique<ScratchMemory>(allocate(options.scratch_bytes, "scratch memory of kernels"));
  } catch (...) {
    cudaFree(arena_.data());
    throw;
  }
}

CudaDevice::~CudaDevice() {
  cudaSetDevice(card_idx_);
  kernels_.reset();
  scratch_.reset();
  CHECK(ranges_.free_bytes() == arena_.size(), "buffers die before their device");
  cudaFree(arena_.data());
}

std::byte* CudaDevice::take_arena(std::uint64_t size_bytes) const {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, size_bytes);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    require(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    throw OutOfBudget(
        fmt::format("the device budget is {}, but {} of the {} on card {} ({}) is free: lower the budget, or end what "
                    "else uses the card",
                    format_bytes(size_bytes), format_bytes(free_bytes), format_bytes(total_bytes), card_idx_, name_));
  }
  require(error, "cudaMalloc of the arena");
  CHECK(is_aligned(reinterpret_cast<std::uintptr_t>(memory), kAlignment), "large allocations begin at pages");
  return static_cast<std::byte*>(memory);
}

void CudaDevice::make_current() const { require(cudaSetDevice(card_idx_), "cudaSetDevice"); }

std::unique_ptr<Stream> CudaDevice::make_stream(const std::string& name) {
  return std::make_unique<CudaStream>(*this, name);
}

Buffer CudaDevice::allocate(std::uint64_t size_bytes, std::string_view who) {
  const std::scoped_lock lock(mutex_);
  const auto range = ranges_.take(size_bytes);
  if (!range) {
    throw OutOfBudget(fmt::format(
        "{} asked for {} of device memory, but of {} only {} is free, {} in one piece: raise the device budget", who,
        format_bytes(size_bytes), format_bytes(ranges_.size()), format_bytes(ranges_.free_bytes()),
        format_bytes(ranges_.largest_free_bytes())));
  }
  peak_bytes_ = std::max(peak_bytes_, ranges_.size() - ranges_.free_bytes());
  return Buffer(arena_.subspan(range->offset, size_bytes), [this, taken = *range](std::span<std::byte>) {
    const std::scoped_lock guard(mutex_);
    ranges_.release(taken);
  });
}

Buffer CudaDevice::allocate_pinned(std::uint64_t size_bytes) {
  make_current();
  if (!host_pins_->take(size_bytes)) {
    auto memory = std::make_shared<PageMemory>(size_bytes);  // owned by the buffer's release callback alone
    memory->populate();
    host_pins_->add_staged(memory->bytes());
    return Buffer(memory->bytes(),
                  [memory, pins = host_pins_](std::span<std::byte> bytes) { pins->remove_staged(bytes); });
  }
  auto memory = std::make_shared<PinnedPages>(size_bytes);  // owned by the buffer's give-back alone
  const std::span<std::byte> bytes = memory->bytes();
  return Buffer(bytes, [memory, pins = host_pins_](std::span<std::byte> given) { pins->give_back(given.size()); });
}

std::uint64_t CudaDevice::free_bytes() const {
  const std::scoped_lock lock(mutex_);
  return ranges_.free_bytes();
}

std::uint64_t CudaDevice::peak_bytes() const {
  const std::scoped_lock lock(mutex_);
  return peak_bytes_;
}

}  // namespace sluice::cuda
