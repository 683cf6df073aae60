// SPDX-License-Identifier: Apache-2.0
#include "plan/place_flow.h"

#include <algorithm>

#include "base/check.h"
#include "plan/step_memory.h"

namespace sluice {

WeightFlow::WeightFlow(RunFlow& flow, const Schedule& schedule, const std::vector<SliceSizes>& sizes)
    : flow_(flow),
      schedule_(schedule),
      sizes_(sizes),
      places_(schedule.weight_places),
      small_(sizes.size()),
      where_(sizes.size(), kNowhere) {}

void WeightFlow::follow(std::vector<std::size_t> order, std::vector<TaskId> ready) {
  order_ = std::move(order);
  ready_ = std::move(ready);
  cursor_ = 0;
  ahead_ = 0;
  uses_.assign(sizes_.size(), {});
  next_uses_.assign(sizes_.size(), 0);
  for (std::size_t position = 0; position < order_.size(); ++position) uses_[order_[position]].push_back(position);
  for (Place& place : places_) place.slice_idx = kNowhere;
  for (Place& place : small_) place.slice_idx = kNowhere;
  where_.assign(sizes_.size(), kNowhere);
  look_ahead();
}

std::size_t WeightFlow::next_use(std::size_t slice_idx) {
  const std::vector<std::size_t>& uses = uses_[slice_idx];
  std::size_t& next = next_uses_[slice_idx];
  while (next < uses.size() && uses[next] < cursor_) ++next;
  return next == uses.size() ? order_.size() : uses[next];
}

WeightFlow::Place* WeightFlow::find(std::size_t slice_idx) {
  if (is_home(slice_idx)) return nullptr;
  if (sizes_[slice_idx].has_small_weights) return &small_[slice_idx];
  return where_[slice_idx] == kNowhere ? nullptr : &places_[where_[slice_idx]];
}

WeightFlow::Place* WeightFlow::place_for(std::size_t position) {
  Place* best = nullptr;
  std::size_t best_use = position;
  for (Place& place : places_) {
    if (place.num_users > 0) continue;
    if (place.slice_idx == kNowhere) return &place;
    const std::size_t use = next_use(place.slice_idx);
    if (use > best_use) {
      best = &place;
      best_use = use;
    }
  }
  return best;
}

void WeightFlow::bring(Place& place, std::size_t slice_idx) {
  place.slice_idx = slice_idx;
  place.arrival = flow_.bring(static_cast<double>(sizes_[slice_idx].weight_bytes), schedule_.homes[slice_idx].weights,
                              {place.last_use, ready_[slice_idx]});
}

// Whoever makes room puts out a slice that is needed later, so what is ahead stays ahead.
void WeightFlow::look_ahead() {
  for (ahead_ = std::max(ahead_, cursor_); ahead_ < order_.size(); ++ahead_) {
    const std::size_t slice_idx = order_[ahead_];
    if (is_home(slice_idx)) continue;
    Place* const there = find(slice_idx);
    if (there != nullptr) {
      if (there->slice_idx == kNowhere) bring(*there, slice_idx);
      continue;
    }
    Place* const place = place_for(ahead_);
    if (place == nullptr) return;
    if (place->slice_idx != kNowhere) where_[place->slice_idx] = kNowhere;
    where_[slice_idx] = static_cast<std::size_t>(place - places_.data());
    bring(*place, slice_idx);
  }
}

void WeightFlow::use(std::size_t slice_idx) {
  CHECK(cursor_ < order_.size() && order_[cursor_] == slice_idx, "slices are used in the order that was told");
  ++cursor_;
  if (is_home(slice_idx)) {
    // Whoever issues work for a card waits here itself.
    if (schedule_.device != DeviceKind::kCpu) flow_.wait(ready_[slice_idx]);
    flow_.compute_after(ready_[slice_idx]);
    return;
  }
  Place* const place = find(slice_idx);
  CHECK(place != nullptr, "places for all that are used together");
  ++place->num_users;
  look_ahead();
  flow_.wait(place->arrival.announced);
  flow_.compute_after(place->arrival.there);
}

void WeightFlow::done(std::size_t slice_idx, TaskId used) {
  Place* const place = find(slice_idx);
  if (place == nullptr) return;
  --place->num_users;
  place->last_use = used;
  look_ahead();
}

GradientFlow::GradientFlow(RunFlow& flow, const Schedule& schedule, const std::vector<SliceSizes>& sizes,
                           double memory_bytes_per_s)
    : flow_(flow),
      schedule_(schedule),
      sizes_(sizes),
      memory_bytes_per_s_(memory_bytes_per_s),
      places_(schedule.gradient_places),
      small_(small_gradient_places(schedule)),
      stored_(2 * sizes.size(), RunFlow::kNone) {}

GradientFlow::Place& GradientFlow::place_for(std::size_t slice_idx) {
  std::vector<Place>& places = sizes_[slice_idx].has_small_gradients ? small_ : places_;
  const auto unused = [](const Place& place) { return place.key == kNobody; };
  auto found =
      std::find_if(places.begin(), places.end(), [&](const Place& place) { return unused(place) && !place.leaves; });
  if (found == places.end()) found = std::find_if(places.begin(), places.end(), unused);
  CHECK(found != places.end(), "places for all that are summed together");
  if (found->leaves) flow_.wait(found->departure.device_free);
  found->leaves = false;
  std::rotate(found, found + 1, places.end());
  return places.back();
}

GradientFlow::Place& GradientFlow::find(std::size_t key) {
  for (std::vector<Place>* places : {&places_, &small_}) {
    for (Place& place : *places) {
      if (place.key == key) return place;
    }
  }
  CHECK(false, "a sum that was begun");
}

void GradientFlow::touch(std::size_t slice_idx, double times) {
  flow_.compute(times * static_cast<double>(sizes_[slice_idx].gradient_bytes) / memory_bytes_per_s_);
}

void GradientFlow::begin(std::size_t slice_idx, Run run, Sum sum) {
  if (!is_home(slice_idx)) {
    const std::size_t key = key_of(slice_idx, run);
    const auto prepared =
        std::find_if(places_.begin(), places_.end(), [&](const Place& place) { return place.key == key; });
    Place& place = prepared != places_.end() ? *prepared : place_for(slice_idx);
    place.key = key;
    if (sum == Sum::kGoesOn) {
      if (!place.arrives) place.arrival = bring(slice_idx, place);
      flow_.wait(place.arrival.announced);
      flow_.compute_after(place.arrival.there);
    }
    place.arrives = false;
  }
  if (sum == Sum::kNew) touch(slice_idx, 1);  // zeros
}

double GradientFlow::run_bytes(std::size_t slice_idx) const {
  return static_cast<double>(gradient_run_bytes(sizes_[slice_idx], schedule_, schedule_.homes[slice_idx].gradients));
}

RunFlow::Arrival GradientFlow::bring(std::size_t slice_idx, const Place& place) {
  return flow_.bring(run_bytes(slice_idx), schedule_.homes[slice_idx].gradients, {place.last_use, stored_[place.key]});
}

void GradientFlow::prepare(std::size_t slice_idx) {
  if (is_home(slice_idx) || sizes_[slice_idx].has_small_gradients || !prepares_gradients(schedule_)) return;
  Place& place = place_for(slice_idx);
  place.key = key_of(slice_idx, Run::kSum);
  place.arrives = true;
  place.arrival = bring(slice_idx, place);
}

void GradientFlow::end(std::size_t slice_idx, Run run) {
  if (is_home(slice_idx)) return;
  Place& place = find(key_of(slice_idx, run));
  place.departure = flow_.send(run_bytes(slice_idx), schedule_.homes[slice_idx].gradients, {flow_.record()});
  place.leaves = true;
  stored_[place.key] = place.departure.stored;
  place.key = kNobody;
}

void GradientFlow::drop(std::size_t slice_idx, Run run) {
  if (is_home(slice_idx)) return;
  Place& place = find(key_of(slice_idx, run));
  place.key = kNobody;
  place.last_use = flow_.record();
}

void GradientFlow::wait() {
  for (std::vector<Place>* places : {&places_, &small_}) {
    for (Place& place : *places) {
      if (!place.leaves) continue;
      flow_.wait(place.departure.stored);
      place.leaves = false;
    }
  }
}

BoundaryFlow::BoundaryFlow(RunFlow& flow, const Schedule& schedule, Shape shape)
    : flow_(flow), home_(schedule.boundaries), shape_(std::move(shape)), places_(shape_.num_places) {
  const std::size_t count = static_cast<std::size_t>(schedule.wave) * (shape_.run_bytes.size() + 1);
  where_.assign(count, kNowhere);
  stored_.assign(count, RunFlow::kNone);
}

std::size_t BoundaryFlow::free_place() {
  std::size_t leaving = kNowhere;
  for (std::size_t idx = 0; idx < places_.size(); ++idx) {
    if (places_[idx].key != kNowhere) continue;
    if (!places_[idx].leaves) return idx;
    if (leaving == kNowhere || places_[idx].departure_number < places_[leaving].departure_number) leaving = idx;
  }
  if (leaving == kNowhere) return kNowhere;
  flow_.wait(places_[leaving].departure.device_free);
  places_[leaving].leaves = false;
  return leaving;
}

void BoundaryFlow::make(Id id) {
  if (home_ == Home::kDevice) return;
  const std::size_t at = free_place();
  CHECK(at != kNowhere, "places for a wave and one more");
  places_[at].key = key_of(id);
  places_[at].arrives = false;
  where_[key_of(id)] = at;
}

void BoundaryFlow::leave(Id id) {
  if (home_ == Home::kDevice) return;
  const std::size_t key = key_of(id);
  Place& place = places_[where_[key]];
  place.last_use = flow_.record();
  place.departure = flow_.send(shape_.run_bytes[id.layer_idx], home_, {place.last_use});
  place.departure_number = ++num_departures_;
  place.leaves = true;
  place.key = kNowhere;
  stored_[key] = place.departure.stored;
  where_[key] = kNowhere;
}

void BoundaryFlow::follow(std::deque<Id> order) {
  order_ = std::move(order);
  look_ahead();
}

void BoundaryFlow::look_ahead() {
  if (home_ == Home::kDevice) return;
  for (const Id& id : order_) {
    const std::size_t key = key_of(id);
    if (where_[key] != kNowhere) continue;
    const std::size_t at = free_place();
    if (at == kNowhere) return;
    Place& place = places_[at];
    place.key = key;
    place.arrives = true;
    place.arrival = flow_.bring(shape_.run_bytes[id.layer_idx], home_, {place.last_use, stored_[key]});
    where_[key] = at;
  }
}

void BoundaryFlow::take(Id id) {
  order_.pop_front();
  if (home_ == Home::kDevice) return;
  Place& place = places_[where_[key_of(id)]];
  if (place.arrives) {
    flow_.wait(place.arrival.announced);
    flow_.compute_after(place.arrival.there);
  }
  place.arrives = false;
}

void BoundaryFlow::drop(Id id) {
  if (home_ == Home::kDevice) return;
  const std::size_t key = key_of(id);
  Place& place = places_[where_[key]];
  place.last_use = flow_.record();
  place.key = kNowhere;
  where_[key] = kNowhere;
  look_ahead();
}

}  // namespace sluice
