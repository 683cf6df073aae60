// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/host_lane.h"

#include <atomic>
#include <new>
#include <optional>
#include <utility>

#include <cuda.h>
#include <fmt/core.h>

#include "base/error.h"
#include "base/thread_pool.h"
#include "device/cuda/cuda_error.h"

namespace sluice::cuda {
namespace {

// The driver's, found through the runtime: nothing links the driver.
void wait_for_number(cudaStream_t stream, std::uintptr_t address, std::uint32_t number) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t asked =
      cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &found, 12000, cudaEnableDefault, &result);
#else
  const cudaError_t asked = cudaGetDriverEntryPoint("cuStreamWaitValue32", &found, cudaEnableDefault, &result);
#endif
  require(asked, "cudaGetDriverEntryPoint of cuStreamWaitValue32");
  if (found == nullptr) throw DeviceError("this driver has no cuStreamWaitValue32: a newer one is needed");
  auto* const wait = reinterpret_cast<decltype(cuStreamWaitValue32)*>(found);
  const CUresult waited = wait(stream, static_cast<CUdeviceptr>(address), number, CU_STREAM_WAIT_VALUE_GEQ);
  if (waited != CUDA_SUCCESS) {
    throw DeviceError(fmt::format("cuStreamWaitValue32 failed with {}", static_cast<int>(waited)));
  }
}

}  // namespace

HostLane::HostLane(std::string name, int card_idx, cudaStream_t stream) : card_idx_(card_idx), stream_(stream) {
  void* memory = nullptr;
  require(cudaHostAlloc(&memory, sizeof(std::uint32_t), cudaHostAllocMapped | cudaHostAllocPortable),
          "cudaHostAlloc of a stream's number");
  done_ = new (memory) std::uint32_t(0);
  void* on_device = nullptr;
  require(cudaHostGetDevicePointer(&on_device, memory, 0), "cudaHostGetDevicePointer of a stream's number");
  done_on_device_ = reinterpret_cast<std::uintptr_t>(on_device);
  thread_ = std::thread([this, name = std::move(name)] {
    name_this_thread(name);
    run();
  });
}

HostLane::~HostLane() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  thread_.join();
  cudaFreeHost(done_);
}

void HostLane::put(std::function<void(cudaError_t)> work) {
  Step step{.reached = take_event(), .work = std::move(work), .number = ++num_put_};
  step.reached.record(stream_);
  wait_for_number(stream_, done_on_device_, step.number);
  {
    const std::scoped_lock lock(mutex_);
    steps_.push_back(std::move(step));
  }
  wake_.notify_one();
}

RawEvent HostLane::take_event() {
  const std::scoped_lock lock(mutex_);
  if (spare_.empty()) return RawEvent();
  RawEvent event = std::move(spare_.back());
  spare_.pop_back();
  return event;
}

void HostLane::run() {
  cudaSetDevice(card_idx_);
  while (true) {
    std::optional<Step> step;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return closing_ || !steps_.empty(); });
      if (steps_.empty()) return;
      step.emplace(std::move(steps_.front()));
      steps_.pop_front();
    }
    step->work(cudaEventSynchronize(step->reached.get()));
    std::atomic_ref<std::uint32_t>(*done_).store(step->number, std::memory_order_release);
    const std::scoped_lock lock(mutex_);
    spare_.push_back(std::move(step->reached));
  }
}

}  // namespace sluice::cuda
