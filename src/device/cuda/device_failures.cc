// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/device_failures.h"

#include <new>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "device/cuda/cuda_error.h"

namespace sluice::cuda {
namespace {

std::exception_ptr as_exception(const KernelFault& fault) {
  const bool is_id = fault.kind == FaultKind::kTokenId;
  return std::make_exception_ptr(InvalidInput(fmt::format(
      "Token {} has the {} {}, but the {} has ids 0 to {}: use the tokenizer that belongs to the model.",
      fault.position, is_id ? "id" : "label", fault.value, is_id ? "embedding" : "vocabulary", fault.bound - 1)));
}

}  // namespace

DeviceFailures::DeviceFailures() {
  void* memory = nullptr;
  require(cudaHostAlloc(&memory, sizeof(KernelFault), cudaHostAllocMapped | cudaHostAllocPortable),
          "cudaHostAlloc of the kernels' fault");
  fault_ = new (memory) KernelFault;
  void* on_device = nullptr;
  require(cudaHostGetDevicePointer(&on_device, memory, 0), "cudaHostGetDevicePointer of the kernels' fault");
  fault_on_device_ = static_cast<KernelFault*>(on_device);
}

DeviceFailures::~DeviceFailures() { cudaFreeHost(fault_); }

void DeviceFailures::add(std::uint64_t sequence, std::exception_ptr failure) {
  const std::scoped_lock lock(mutex_);
  if (failure_ && failed_at_ <= sequence) return;
  failure_ = std::move(failure);
  failed_at_ = sequence;
}

std::exception_ptr DeviceFailures::before(std::uint64_t sequence) const {
  const std::scoped_lock lock(mutex_);
  if (failure_ && failed_at_ < sequence) return failure_;
  const std::uint64_t faulted_at = *static_cast<const volatile std::uint64_t*>(&fault_->sequence);
  if (faulted_at != 0 && faulted_at < sequence) return as_exception(*fault_);
  return nullptr;
}

}  // namespace sluice::cuda
