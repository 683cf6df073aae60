// SPDX-License-Identifier: Apache-2.0
// Blocks' inputs between forward and backward. Each micro-batch of a wave has one that is current; those behind it stay
// on the device, or go where boundaries live and come back, in the backward's order, ahead of their use. For one
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "device/device.h"
#include "model/architecture.h"
#include "plan/schedule.h"
#include "tier/run_keeper.h"

namespace sluice {

class BoundaryPlaces {
 public:
  // Which micro-batch of the wave, and which block reads it.
  struct Id {
    std::int64_t batch_idx = 0;
    std::int64_t layer_idx = 0;
    bool operator==(const Id&) const = default;
    bool operator<(const Id& other) const {
      return std::pair(batch_idx, layer_idx) < std::pair(other.batch_idx, other.layer_idx);
    }
  };

  BoundaryPlaces(Device& device, Stream& stream, const Architecture& arch, RunKeeper& keeper, const Schedule& schedule);

  // Memory for a boundary that is about to be computed: (tokens, hidden).
  TensorView make(Id id, std::int64_t num_tokens);
  // The block that reads it has been put on the stream: it is not needed before the backward.
  void leave(Id id);
  // The boundaries that the backward will read, in this order; begins to bring the first ones.
  void follow(std::deque<Id> order);
  // The next of that order, or one that never left; what the stream does from here on finds it.
  TensorView take(Id id, std::int64_t num_tokens);
  // One that was taken and not dropped.
  TensorView current(Id id, std::int64_t num_tokens) { return view(place_of(id), num_tokens); }
  // Where the block's attention waits with it, while it is on the device; empty: nowhere.
  std::span<std::byte> attention(Id id);
  // Not needed any more.
  void drop(Id id);

 private:
  struct Place {
    Buffer memory;
    std::optional<Id> id;
    std::optional<Departure> departure;  // on its way home
    std::uint64_t departure_number = 0;  // they end in this order
    std::optional<Arrival> arrival;      // on its way back
    Event last_use;
  };

  Place* free_place();
  Place& place_of(Id id);
  TensorView view(const Place& place, std::int64_t num_tokens) const;
  std::span<std::byte> run_of(const Place& place, Id id) const;
  void look_ahead();

  Stream& stream_;
  const Architecture& arch_;
  RunKeeper& keeper_;
  DType dtype_;
  Home home_;
  std::vector<std::uint64_t> run_bytes_;  // of each layer's, where they leave
  std::vector<bool> keeps_attention_;
  std::uint64_t attention_offset_ = 0;
  std::vector<Place> places_;
  std::map<Id, std::size_t> where_;  // those on the device: an index of places_
  std::deque<Id> order_;
  std::uint64_t num_departures_ = 0;
};

}  // namespace sluice
