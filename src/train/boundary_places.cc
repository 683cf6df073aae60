// SPDX-License-Identifier: Apache-2.0
#include "train/boundary_places.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"
#include "plan/step_memory.h"
#include "train/state_keys.h"

namespace sluice {
BoundaryPlaces::BoundaryPlaces(Device& device, Stream& stream, const Architecture& arch, RunKeeper& keeper,
                               const Schedule& schedule)
    : stream_(stream), arch_(arch), keeper_(keeper), dtype_(schedule.dtype), home_(schedule.boundaries) {
  CHECK(home_ == Home::kDevice || schedule.boundary_places >= 1, "a place to compute the next boundary in");
  places_.resize(num_boundary_places(arch, schedule));
  for (Place& place : places_) place.memory = device.allocate(boundary_place_bytes(arch, schedule), "blocks' inputs");
  if (home_ == Home::kDevice) return;
  for (std::int64_t layer_idx = 0; layer_idx < arch.num_layers(); ++layer_idx) {
    run_bytes_.push_back(boundary_run_bytes(arch, schedule, layer_idx));
    keeps_attention_.push_back(keeps_attention(arch, schedule, layer_idx));
  }
  attention_offset_ = attention_offset(arch, schedule);
  for (std::int64_t batch_idx = 0; batch_idx < schedule.wave; ++batch_idx) {
    for (std::int64_t layer_idx = 0; layer_idx < arch.num_layers(); ++layer_idx) {
      keeper.add(boundary_key(batch_idx, layer_idx), run_bytes_[static_cast<std::size_t>(layer_idx)], home_,
                 Lifetime::kScratch);
    }
  }
}

BoundaryPlaces::Place* BoundaryPlaces::free_place() {
  Place* leaving = nullptr;
  for (Place& place : places_) {
    if (place.id) continue;
    if (!place.departure) return &place;
    if (leaving == nullptr || place.departure_number < leaving->departure_number) leaving = &place;
  }
  if (leaving == nullptr) return nullptr;
  leaving->departure->device_free.get();
  leaving->departure.reset();
  return leaving;
}

BoundaryPlaces::Place& BoundaryPlaces::place_of(Id id) {
  const auto found = where_.find(id);
  CHECK(found != where_.end(), "a boundary that is on the device");
  return places_[found->second];
}

TensorView BoundaryPlaces::view(const Place& place, std::int64_t num_tokens) const {
  return {place.memory.bytes(), dtype_, {num_tokens, arch_.hidden}};
}

std::span<std::byte> BoundaryPlaces::run_of(const Place& place, Id id) const {
  return place.memory.bytes().first(run_bytes_[static_cast<std::size_t>(id.layer_idx)]);
}

std::span<std::byte> BoundaryPlaces::attention(Id id) {
  const auto layer = static_cast<std::size_t>(id.layer_idx);
  if (home_ == Home::kDevice || !keeps_attention_[layer]) return {};
  return run_of(place_of(id), id).subspan(attention_offset_);
}

TensorView BoundaryPlaces::make(Id id, std::int64_t num_tokens) {
  Place* const place = free_place();
  CHECK(place != nullptr, "places for a wave and one more");
  place->id = id;
  place->arrival.reset();
  where_[id] = static_cast<std::size_t>(place - places_.data());
  return view(*place, num_tokens);
}

void BoundaryPlaces::leave(Id id) {
  if (home_ == Home::kDevice) return;
  Place& place = place_of(id);
  place.last_use = stream_.record();
  place.departure = keeper_.send(boundary_key(id.batch_idx, id.layer_idx), run_of(place, id), place.last_use);
  place.departure->stored = {};  // the keeper has it
  place.departure_number = ++num_departures_;
  place.id.reset();
  where_.erase(id);
}

void BoundaryPlaces::follow(std::deque<Id> order) {
  order_ = std::move(order);
  look_ahead();
}

void BoundaryPlaces::look_ahead() {
  if (home_ == Home::kDevice) return;
  for (const Id& id : order_) {
    if (where_.count(id) > 0) continue;
    Place* const place = free_place();
    if (place == nullptr) return;
    place->id = id;
    place->arrival = keeper_.bring(boundary_key(id.batch_idx, id.layer_idx), run_of(*place, id), place->last_use);
    where_[id] = static_cast<std::size_t>(place - places_.data());
  }
}

TensorView BoundaryPlaces::take(Id id, std::int64_t num_tokens) {
  CHECK(!order_.empty() && order_.front() == id, "boundaries are taken in the order that was told");
  order_.pop_front();
  Place& place = place_of(id);
  if (place.arrival) stream_.wait(place.arrival->get());
  place.arrival.reset();
  return view(place, num_tokens);
}

void BoundaryPlaces::drop(Id id) {
  Place& place = place_of(id);
  place.last_use = stream_.record();
  place.id.reset();
  where_.erase(id);
  look_ahead();
}

}  // namespace sluice
