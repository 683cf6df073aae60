// SPDX-License-Identifier: Apache-2.0
#include "train/weight_places.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "model/slice_layout.h"
#include "plan/step_memory.h"
#include "train/state_keys.h"

namespace sluice {
namespace {

// Passed when the future is ready; throws what it does.
class Readiness : public Event::State {
 public:
  explicit Readiness(std::shared_future<void> ready) : ready_(std::move(ready)) {}
  bool passed() const override { return ready_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  void wait() const override { ready_.get(); }

 private:
  std::shared_future<void> ready_;
};

}  // namespace

WeightPlaces::WeightPlaces(Device& device, const Architecture& arch, RunKeeper& keeper, const Schedule& schedule)
    : arch_(arch), keeper_(keeper), homes_(schedule.homes), small_(num_slices(arch)) {
  const PlaceBytes bytes = weight_place_bytes(arch, schedule);
  if (bytes.large > 0) places_.resize(schedule.weight_places);
  for (Place& place : places_) place.memory = device.allocate(bytes.large, "weights on their way");
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    const std::uint64_t one = round_up(weight_bytes(arch, schedule, slice_idx), Device::kAlignment);
    if (schedule.homes[slice_idx].weights != Home::kDevice && one <= kSmallSliceBytes) {
      small_[slice_idx].memory = device.allocate(one, slice_name(arch, slice_idx));
    }
  }
}

void WeightPlaces::follow(std::vector<std::size_t> order, std::vector<std::shared_future<void>> ready) {
  CHECK(cursor_ == order_.size(), "an order is followed to its end");
  order_ = std::move(order);
  ready_ = std::move(ready);
  cursor_ = 0;
  uses_.assign(num_slices(arch_), {});
  for (std::size_t position = 0; position < order_.size(); ++position) uses_[order_[position]].push_back(position);
  for (std::vector<Place>* places : {&places_, &small_}) {
    for (Place& place : *places) {
      CHECK(place.num_users == 0, "nobody uses weights between steps");
      place.slice_idx = -1;
    }
  }
  look_ahead();
}

std::size_t WeightPlaces::next_use(std::size_t slice_idx) const {
  const std::vector<std::size_t>& uses = uses_[slice_idx];
  const auto next = std::lower_bound(uses.begin(), uses.end(), cursor_);
  return next == uses.end() ? order_.size() : *next;
}

WeightPlaces::Place* WeightPlaces::find(std::size_t slice_idx) {
  if (small_[slice_idx].memory.size_bytes() > 0) return &small_[slice_idx];
  const auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
    return place.slice_idx == static_cast<std::ptrdiff_t>(slice_idx);
  });
  return found == places_.end() ? nullptr : &*found;
}

// One that is empty, or whose slice is needed last and later than this position.
WeightPlaces::Place* WeightPlaces::place_for(std::size_t position) {
  Place* best = nullptr;
  std::size_t best_use = position;
  for (Place& place : places_) {
    if (place.num_users > 0) continue;
    if (place.slice_idx < 0) return &place;
    const std::size_t use = next_use(static_cast<std::size_t>(place.slice_idx));
    if (use > best_use) {
      best = &place;
      best_use = use;
    }
  }
  return best;
}

void WeightPlaces::bring(Place& place, std::size_t slice_idx) {
  place.slice_idx = static_cast<std::ptrdiff_t>(slice_idx);
  place.arrival = keeper_.bring(weights_key(arch_, slice_idx), place.memory.bytes(), place.last_use, ready_[slice_idx]);
}

void WeightPlaces::look_ahead() {
  for (std::size_t position = cursor_; position < order_.size(); ++position) {
    const std::size_t slice_idx = order_[position];
    if (homes_[slice_idx].weights == Home::kDevice) continue;
    Place* const there = find(slice_idx);
    if (there != nullptr) {
      if (there->slice_idx < 0) bring(*there, slice_idx);  // a small one
      continue;
    }
    Place* const place = place_for(position);
    if (place == nullptr) return;
    bring(*place, slice_idx);
  }
}

std::span<std::byte> WeightPlaces::use(std::size_t slice_idx, Stream& stream) {
  CHECK(cursor_ < order_.size() && order_[cursor_] == slice_idx, "slices are used in the order that was told");
  const std::string key = weights_key(arch_, slice_idx);
  if (homes_[slice_idx].weights == Home::kDevice) {
    ++cursor_;
    const std::shared_future<void>& ready = ready_[slice_idx];
    if (ready.valid() && stream.kind() != DeviceKind::kCpu) {
      ready.get();  // here: a card's stream that waits for the host might hold up whoever is to be waited for
    } else if (ready.valid()) {
      stream.wait(Event(std::make_shared<Readiness>(ready)));
    }
    return keeper_.bytes(key);
  }
  Place* const place = find(slice_idx);
  CHECK(place != nullptr, "places for all that are used together");
  ++place->num_users;
  ++cursor_;
  look_ahead();
  stream.wait(place->arrival.get());
  return place->memory.bytes().first(keeper_.size_bytes(key));
}

void WeightPlaces::done(std::size_t slice_idx, const Event& used) {
  Place* const place = find(slice_idx);
  if (place == nullptr) return;  // at home on the device
  CHECK(place->num_users > 0, "done after use");
  --place->num_users;
  place->last_use = used;
  look_ahead();
}

}  // namespace sluice
