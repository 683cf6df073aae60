// SPDX-License-Identifier: Apache-2.0
// Weights on the device, for a step whose order of slices is known: places for a few slices at a time, filled ahead of
// their use in that order. A slice stays for its next use if no other is needed sooner, so the last of the forward are
// still there for the backward, and everything stays where there is room for everything. Small slices have places of
// their own; those at home on the device are used there. For one thread.
//
//   places 3        0 1 2   fetch 3 where 0 was (its next use is the farthest) … turn …   fetch 1 where 4 was
//   compute         0 1 2 3 4 | 4 3 2 1 0
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <span>
#include <vector>

#include "device/device.h"
#include "model/architecture.h"
#include "plan/schedule.h"
#include "tier/run_keeper.h"

namespace sluice {

class WeightPlaces {
 public:
  WeightPlaces(Device& device, const Architecture& arch, RunKeeper& keeper, const Schedule& schedule);

  // The slices that will be used, in this order. `ready` holds a future for each slice of the model: its weights are
  // those of this step once it is; invalid ones are. What earlier orders brought is forgotten.
  void follow(std::vector<std::size_t> order, std::vector<std::shared_future<void>> ready);

  // The next of the order; what `stream` does from here on finds it. Kept until done().
  std::span<std::byte> use(std::size_t slice_idx, Stream& stream);
  // What uses it has been put on the stream before `used`.
  void done(std::size_t slice_idx, const Event& used);

 private:
  struct Place {
    Buffer memory;
    std::ptrdiff_t slice_idx = -1;  // -1: none
    std::size_t num_users = 0;
    Event last_use;
    Arrival arrival;
  };

  Place* find(std::size_t slice_idx);
  Place* place_for(std::size_t position);
  void bring(Place& place, std::size_t slice_idx);
  void look_ahead();
  // Where the order needs the slice next, from `cursor_` on; order_.size() if it does not.
  std::size_t next_use(std::size_t slice_idx) const;

  const Architecture& arch_;
  RunKeeper& keeper_;
  std::vector<SliceHomes> homes_;
  std::vector<Place> places_;  // for large slices, one size
  std::vector<Place> small_;   // one for each slice; without memory for those that are not small
  std::vector<std::size_t> order_;
  std::size_t cursor_ = 0;                      // the next use
  std::vector<std::vector<std::size_t>> uses_;  // positions in the order, for each slice
  std::vector<std::shared_future<void>> ready_;
};

}  // namespace sluice
