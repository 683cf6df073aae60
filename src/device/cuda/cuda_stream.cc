// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_stream.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/units.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_event.h"

namespace sluice::cuda {
namespace {

constexpr std::size_t kSlotBytes = 4 * kMiB;

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
  if (device_.host_pins().is_limited()) {
    void* slot = nullptr;
    require(cudaHostAlloc(&slot, kSlotBytes, cudaHostAllocPortable), "cudaHostAlloc of a stream's slot");
    slot_.reset(static_cast<std::byte*>(slot));
  }
  name_stream(stream_, name_);
}

CudaStream::~CudaStream() {
  // What failed rides on the events; here everything has passed, or the card is lost and nothing runs any more.
  cudaSetDevice(device_.card_idx());
  try {
    end_piece();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a lost card has no more to tell
  }
  cudaStreamSynchronize(stream_);
  host_.reset();
  watch_.reset();
  device_.scratch().forget(stream_);
  cudaStreamDestroy(stream_);
}

Kernels* CudaStream::kernels() { return device_.kernels(); }

Scratch CudaStream::scratch(std::uint64_t size_bytes, std::string_view who) {
  return device_.scratch().take(stream_, size_bytes, who);
}

void CudaStream::copy(std::span<std::byte> to, std::span<const std::byte> from) {
  CHECK(to.size() == from.size(), "a copy has two ends of one size");
  const HostPins& pins = device_.host_pins();
  if (slot_ && (pins.is_staged(to.data()) || pins.is_staged(from.data()))) return copy_staged(to, from);
  put("a copy", [&] {
    if (to.empty()) return;
    if (!is_known(to.data()) || !is_known(from.data())) await_all();
    require(cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  });
}

// Copies pageable memory piece by piece through the pinned slot: the host thread fills it and the card drains it, or
// the other way round, in stream order.
void CudaStream::copy_staged(std::span<std::byte> to, std::span<const std::byte> from) {
  const std::scoped_lock lock(mutex_);
  const HostPins& pins = device_.host_pins();
  const bool is_to_host = pins.is_staged(to.data());
  const bool is_from_host = pins.is_staged(from.data());
  std::byte* const slot = slot_.get();
  for (std::size_t at = 0; at < to.size(); at += kSlotBytes) {
    const std::size_t size = std::min(kSlotBytes, to.size() - at);
    std::byte* const piece_to = to.data() + at;
    const std::byte* const piece_from = from.data() + at;
    const auto transfer = [&](std::byte* end, const std::byte* begin) {
      begin_work();
      require(cudaMemcpyAsync(end, begin, size, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
      end_work("a copy through a slot");
    };
    device_.make_current();
    if (is_from_host) {
      run_locked([=] { std::memcpy(slot, piece_from, size); }, nullptr);
    } else {
      transfer(slot, piece_from);
    }
    if (is_to_host) {
      run_locked([=] { std::memcpy(piece_to, slot, size); }, nullptr);
    } else {
      transfer(piece_to, slot);
    }
  }
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
  // Shared with the work, which std::function may copy; null: nobody watches.
  std::shared_ptr<std::promise<WatchLane::Times>> times;
  if (watcher != nullptr) {
    times = std::make_shared<std::promise<WatchLane::Times>>();
    watch_->add(watcher, times->get_future());
  }
  host_->put([failures = failures_, sequence, times, work = std::move(work)](cudaError_t state) {
    const std::int64_t begin_ns = SteadyClock().now_ns();
    try {
      require(state, "waiting for the card before host work");
      if (!failures->before(sequence)) work();
    } catch (...) {  // whatever it is, it is rethrown at the next wait
      failures->add(sequence, std::current_exception());
    }
    if (times) times->set_value({begin_ns, SteadyClock().now_ns()});
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
  if (watcher != nullptr && !watch_)
    watch_ = std::make_unique<WatchLane>(name_ + "-watch", device_.card_idx(), stream_);
  watcher_ = watcher;
}

void CudaStream::label(std::string text) {
  const std::scoped_lock lock(mutex_);
  label_ = text;
  if (watcher_ == nullptr) return;
  device_.make_current();
  end_piece();
  watch_->label(watcher_, std::move(text));
}

void CudaStream::tell() {
  const std::scoped_lock lock(mutex_);
  if (watcher_ == nullptr) return;
  device_.make_current();
  end_piece();
  watch_->drain();
}

void CudaStream::begin_work() {
  device_.make_current();
  sequence_ = failures_->next_sequence();
  if (watcher_ == nullptr || is_in_piece_) return;
  watch_->begin_piece();
  is_in_piece_ = true;
}

void CudaStream::end_work(std::string_view what) { require(cudaGetLastError(), what); }

void CudaStream::end_piece() {
  if (!is_in_piece_) return;
  is_in_piece_ = false;
  watch_->end_piece(watcher_);
}

}  // namespace sluice::cuda
