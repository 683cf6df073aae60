// SPDX-License-Identifier: Apache-2.0
// The cpu-optimizer lane: updates every slice in the order the forward meets them, on the host, window by window, while
// the next step's forward already runs on those that are done. What lives on the drives, or in a card's memory, is read
// and written through a few windows of host memory; what lives in host memory is updated where it is, and so are slices
// all of whose state is on a card: by the card, to the same bits. Thread-safe for one caller.
//
//   nvme->host      read w0   read w1   read w2   read w3
//   cpu-optimizer             update w0 update w1 update w2
//   host->nvme                          write w0  write w1
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "device/cpu/cpu_device.h"
#include "model/architecture.h"
#include "ops/adamw.h"
#include "plan/optimizer_layout.h"
#include "plan/schedule.h"
#include "tier/run_keeper.h"

namespace sluice {

class OptimizerLane {
 public:
  struct Options {
    const Architecture* arch = nullptr;
    RunKeeper* keeper = nullptr;
    SliceStore* store = nullptr;  // null where nothing lives on the drives
    Budget* host = nullptr;
    const Schedule* schedule = nullptr;
    std::size_t num_threads = 1;
    std::size_t num_windows = 8;  // in host memory at once
    double momentum = 0;          // of SGD; 0 exactly where the schedule's optimizer has none
    std::uint64_t seed = 0;       // of what is rounded stochastically
    LaneTrace* trace = nullptr;   // may be null
  };
  // Adds optimizer states to the keeper. What is given outlives this.
  explicit OptimizerLane(const Options& options);
  ~OptimizerLane();

  // Updates what is trained of all slices from their gradients; SGD takes what it shares with AdamW. `when_done` runs
  // in the lane after the last. A future for each slice: its weights are new, or what went wrong; an invalid one where
  // nothing is trained. Waits for the update before, which has had the whole step for itself, and throws what went
  // wrong there: slices that were done do not tell of a when_done that failed.
  std::vector<std::shared_future<void>> update(const AdamWSettings& settings, std::function<void()> when_done);
  // Until the last update and its when_done are through; throws what went wrong.
  void wait();

 private:
  class Pass;  // one update

  OptimizerLayout layout_of(std::size_t slice_idx) const;
  Home weights_home(std::size_t slice_idx) const;

  Options options_;
  std::vector<std::size_t> trained_;  // slices of which anything is, in order
  CpuDevice cpu_;                     // no memory, the threads alone
  std::unique_ptr<Stream> stream_;
  // Of a card; null where the CPU plays the device.
  std::unique_ptr<Stream> card_, from_card_, to_card_;
  Reservation reservation_;
  std::vector<Buffer> windows_;
  std::shared_future<void> done_;
  ThreadPool lane_;
};

}  // namespace sluice
