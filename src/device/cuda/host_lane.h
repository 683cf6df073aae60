// SPDX-License-Identifier: Apache-2.0
// The thread that runs a stream's host work. The stream marks the place with an event and then waits for a number in
// pinned memory; the thread waits for the event, runs the work and writes the number. CUDA's own host functions would
// not do: they may be serialised over all streams and may not call CUDA, while our work may wait for anything.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

#include "device/cuda/cuda_event.h"

namespace sluice::cuda {

class HostLane {
 public:
  // On the card that is current. The stream outlives the lane, and has passed all its work when the lane dies.
  HostLane(std::string name, int card_idx, cudaStream_t stream);
  ~HostLane();
  HostLane(const HostLane&) = delete;
  HostLane& operator=(const HostLane&) = delete;

  // Runs work(state of the card) when the stream gets here; what follows in the stream waits for it. work throws
  // nothing.
  void put(std::function<void(cudaError_t)> work);

 private:
  struct Step {
    RawEvent reached;
    std::function<void(cudaError_t)> work;
    std::uint32_t number = 0;
  };

  RawEvent take_event();
  void run();

  int card_idx_;
  cudaStream_t stream_;
  std::uint32_t* done_ = nullptr;  // pinned: the number of the last step done
  std::uintptr_t done_on_device_ = 0;
  std::uint32_t num_put_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Step> steps_;
  // Used again rather than destroyed: destroying one waits for the driver, which may itself wait for our next work.
  std::vector<RawEvent> spare_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace sluice::cuda
