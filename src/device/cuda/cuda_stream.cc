// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_stream.h"

#include <exception>
#include <utility>

#include "base/check.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_event.h"

namespace sluice::cuda {
namespace {

void begins(void* watcher) { static_cast<StreamWatcher*>(watcher)->begins(); }
void ends(void* watcher) { static_cast<StreamWatcher*>(watcher)->ends(); }

// Whether the driver copies from and to here by itself: pinned, or of a card.
bool is_known(const void* memory) {
  cudaPointerAttributes attributes{};
  require(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  return attributes.type != cudaMemoryTypeUnregistered;
}

}  // namespace

CudaStream::CudaStream(CudaDevice& device, std::string name)
    : device_(device), name_(std::move(name)), failures_(device.failures()) {
  device_.make_current();
  require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  // Now, not with the first host work: taking pinned memory waits for every stream, one of which may wait for us then.
  host_ = std::make_unique<HostLane>(name_, device_.card_idx(), stream_);
}

CudaStream::~CudaStream() {
  // What failed rides on the events; here everything has passed, or the card is lost and nothing runs any more.
  cudaSetDevice(device_.card_idx());
  if (told_ != nullptr) static_cast<void>(cudaLaunchHostFunc(stream_, ends, told_));
  cudaStreamSynchronize(stream_);
  host_.reset();
  device_.scratch().forget(stream_);
  cudaStreamDestroy(stream_);
}

Kernels* CudaStream::kernels() { return device_.kernels(); }

Scratch CudaStream::scratch(std::uint64_t size_bytes, std::string_view who) {
  return device_.scratch().take(stream_, size_bytes, who);
}

void CudaStream::copy(std::span<std::byte> to, std::span<const std::byte> from) {
  CHECK(to.size() == from.size(), "a copy has two ends of one size");
  put("a copy", [&] {
    if (to.empty()) return;
    if (!is_known(to.data()) || !is_known(from.data())) await_all();
    require(cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  });
}

// The driver locks everybody out while it copies what is not pinned, host work that this copy waits for among them.
void CudaStream::await_all() {
  RawEvent reached;
  reached.record(stream_);
  require(cudaEventSynchronize(reached.get()), "waiting for the card before a copy");
}

void CudaStream::clear(std::span<std::byte> memory) {
  put("clearing memory", [&] {
    if (memory.empty()) return;
    require(cudaMemsetAsync(memory.data(), 0, memory.size(), stream_), "cudaMemsetAsync");
  });
}

void CudaStream::run(std::function<void()> work) {
  const std::scoped_lock lock(mutex_);
  device_.make_current();
  run_locked(std::move(work), watcher_);
}

void CudaStream::run_locked(std::function<void()> work, StreamWatcher* watcher) {
  end_piece();
  const std::uint64_t sequence = failures_->next_sequence();
  host_->put([failures = failures_, sequence, watcher, work = std::move(work)](cudaError_t state) {
    if (watcher != nullptr) watcher->begins();
    try {
      require(state, "waiting for the card before host work");
      if (!failures->before(sequence)) work();
    } catch (...) {  // whatever it is, it is rethrown at the next wait
      failures->add(sequence, std::current_exception());
    }
    if (watcher != nullptr) watcher->ends();
  });
}

Event CudaStream::record() {
  const std::scoped_lock lock(mutex_);
  device_.make_current();
  end_piece();
  RawEvent event;
  event.record(stream_);
  return Event(std::make_shared<CudaEventState>(std::move(event), failures_->next_sequence(), failures_));
}

void CudaStream::wait(const Event& event) {
  if (event.state() == nullptr) return;
  const std::scoped_lock lock(mutex_);
  device_.make_current();
  end_piece();
  if (const auto* const state = dynamic_cast<const CudaEventState*>(event.state())) {
    require(cudaStreamWaitEvent(stream_, state->raw(), 0), "cudaStreamWaitEvent");
  } else {
    run_locked([event] { event.wait(); }, nullptr);
  }
}

void CudaStream::watch(StreamWatcher* watcher) {
  const std::scoped_lock lock(mutex_);
  device_.make_current();
  end_piece();
  watcher_ = watcher;
}

void CudaStream::begin_work() {
  device_.make_current();
  sequence_ = failures_->next_sequence();
  if (watcher_ == nullptr || told_ != nullptr) return;
  require(cudaLaunchHostFunc(stream_, begins, watcher_), "cudaLaunchHostFunc");
  told_ = watcher_;
}

void CudaStream::end_work(std::string_view what) { require(cudaGetLastError(), what); }

void CudaStream::end_piece() {
  if (told_ == nullptr) return;
  require(cudaLaunchHostFunc(stream_, ends, told_), "cudaLaunchHostFunc");
  told_ = nullptr;
}

}  // namespace sluice::cuda
