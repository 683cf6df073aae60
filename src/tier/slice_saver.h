// SPDX-License-Identifier: Apache-2.0
// Takes slices from the device to the drives, the other way round through the same staging ring:
//
//   device->host   copy A0   copy A1   copy B0   copy B1
//   host->nvme               write A0  write A1  write B0  write B1
//
// A saved slice is staged in the store, where a commit makes it current; or kept apart, for as long as it is needed.
#pragma once

#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "device/device.h"
#include "tier/lane_trace.h"
#include "tier/slice_store.h"
#include "tier/staging_ring.h"

namespace sluice {

struct Departure {
  std::shared_future<void> device_free;  // the device memory may be reused; or what went wrong
  std::shared_future<SliceRef> stored;   // the store has it whole; or what went wrong
};

enum class SaveAs : std::uint8_t { kStaged, kApart };

class SliceSaver {
 public:
  // `trace` may be null.
  SliceSaver(SliceStore& store, StagingRing& ring, Device& device, LaneTrace* trace);

  // Saves device memory as the next version of `key`, once all of `after` have passed; what failed before them fails
  // the save, so that nothing half-computed is ever stored. Space on the drives is taken when the first bytes are
  // there: what a full drive throws comes with the departure.
  Departure save(const std::string& key, std::span<const std::byte> from, std::vector<Event> after,
                 SaveAs save_as = SaveAs::kStaged);

 private:
  struct Save;
  struct Window;

  void copy(const std::shared_ptr<Save>& save);
  void write(Window& window);
  void finish(Save& save);
  void abandon(Save& save, const std::exception_ptr& failure);

  SliceStore& store_;
  StagingRing& ring_;
  LaneTrace* trace_;
  std::unique_ptr<Stream> copies_;
  ThreadPool host_to_nvme_;  // declared before the lane that feeds it, so that it outlives it
  ThreadPool device_to_host_;
};

}  // namespace sluice
