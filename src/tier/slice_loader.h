// SPDX-License-Identifier: Apache-2.0
// Brings slices from the drives to the device, window by window through the staging ring, each lane in order and all
// lanes at once (two slices A and B of two windows each, three slots):
//
//   nvme->host     read A0   read A1   read B0   read B1
//   host->device             copy A0   copy A1   copy B0   copy B1
//   compute                                      use A               use B
//
// Reads run ahead of copies by as many windows as there are slots. Every chunk is verified on the host before it is
// copied: the device never sees damaged bytes.
//
// With a DirectReader slices go from the drives to the device past the host, are summed there, and count as arrived
// once the sums are those of what was written.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <span>

#include "base/thread_pool.h"
#include "device/device.h"
#include "tier/direct_reader.h"
#include "tier/lane_trace.h"
#include "tier/slice_store.h"
#include "tier/staging_ring.h"

namespace sluice {

// Ready once the last copy has been put on its stream; holds the event that it will pass, or what went wrong.
using Arrival = std::shared_future<Event>;

class SliceLoader {
 public:
  // `trace` may be null, and so may `direct`.
  SliceLoader(SliceStore& store, StagingRing& ring, Device& device, LaneTrace* trace, DirectReader* direct = nullptr);

  // Fills `into` (at least the slice's size) on the device, once `after` has passed; it stays valid until the arrival's
  // event has. Which version it is may be found out on the way: `find` runs in the lane, and may wait there.
  using FindVersion = std::function<SliceRef()>;
  Arrival load(FindVersion find, std::span<std::byte> into, Event after = {});
  // Also into host memory.
  Arrival load(const SliceRef& version, std::span<std::byte> into);

 private:
  struct Load;
  struct Window;

  Arrival start(std::shared_ptr<Load> load);
  void read(const std::shared_ptr<Load>& load);
  void read_past_host(Load& load);
  void copy(Window& window);
  void fail(Load& load, std::exception_ptr failure);

  SliceStore& store_;
  StagingRing& ring_;
  LaneTrace* trace_;
  DirectReader* direct_;
  std::unique_ptr<Stream> copies_;
  ThreadPool host_to_device_;  // declared before the lane that feeds it, so that it outlives it
  ThreadPool nvme_to_host_;
};

}  // namespace sluice
