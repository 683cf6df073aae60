// SPDX-License-Identifier: Apache-2.0
// The thread that tells a stream's watcher what the stream did. The card notes the times by itself, in events that are
// read afterwards: nothing in the stream waits for the host.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "device/cuda/cuda_event.h"

namespace sluice::cuda {

class WatchLane {
 public:
  using Times = std::pair<std::int64_t, std::int64_t>;  // begin and end, of the steady clock

  // On the card that is current, once the stream is through with its work. The stream outlives the lane, and has passed
  // all its work when the lane dies.
  WatchLane(const std::string& name, int card_idx, cudaStream_t stream);
  ~WatchLane();
  WatchLane(const WatchLane&) = delete;
  WatchLane& operator=(const WatchLane&) = delete;

  // One piece of the stream's work after another; for one thread at a time.
  void begin_piece();
  void end_piece(StreamWatcher* watcher);
  void label(StreamWatcher* watcher, std::string text);
  // A piece that the host does; the future is given its times, or dropped.
  void add(StreamWatcher* watcher, std::future<Times> times);
  // Until all pieces have been told of. Compares the clocks again, now and then.
  void drain();

 private:
  // A moment by both clocks.
  struct Moment {
    RawEvent event;
    std::int64_t ns = 0;
  };
  struct Item {
    StreamWatcher* watcher = nullptr;
    std::shared_ptr<const Moment> base;  // shared by the pieces until the next; null: not the card's
    std::vector<RawEvent> ends;          // begin and end
    std::future<Times> times;
    std::string label;
  };

  void compare_clocks();
  RawEvent take_event();
  void push(Item item);
  void run();
  void tell(Item& item);

  int card_idx_;
  cudaStream_t stream_;
  std::shared_ptr<const Moment> base_;
  std::vector<RawEvent> begun_;  // of the piece under way
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;  // the first stays until it has been told
  std::vector<RawEvent> spare_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace sluice::cuda
