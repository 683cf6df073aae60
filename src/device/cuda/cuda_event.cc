// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_event.h"

#include <exception>

#include "device/cuda/cuda_error.h"

namespace sluice::cuda {

RawEvent::RawEvent(Timing timing) {
  const unsigned flags = cudaEventBlockingSync | (timing == Timing::kYes ? 0U : cudaEventDisableTiming);
  require(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreate");
}

RawEvent::~RawEvent() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

void RawEvent::record(cudaStream_t stream) { require(cudaEventRecord(event_, stream), "cudaEventRecord"); }

// A lost card passes every event: what went wrong is thrown at the wait.
bool CudaEventState::passed() const { return cudaEventQuery(event_.get()) != cudaErrorNotReady; }

void CudaEventState::wait() const {
  require(cudaEventSynchronize(event_.get()), "waiting for the card");
  if (const std::exception_ptr failure = failures_->before(sequence_)) std::rethrow_exception(failure);
}

}  // namespace sluice::cuda
