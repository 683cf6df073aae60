// SPDX-License-Identifier: Apache-2.0
#include "train/gradient_places.h"

#include <algorithm>

#include "base/bf16.h"
#include "base/check.h"
#include "base/units.h"
#include "model/adapter_layout.h"
#include "model/slice_layout.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "plan/step_memory.h"
#include "train/state_keys.h"

namespace sluice {
GradientPlaces::GradientPlaces(Device& device, Stream& stream, const Architecture& arch, RunKeeper& keeper,
                               const Schedule& schedule)
    : stream_(stream),
      arch_(arch),
      keeper_(keeper),
      homes_(schedule.homes),
      rounds_(rounds_gradients(arch, schedule)),
      prepares_(prepares_gradients(schedule)),
      squares_(device.allocate(num_slices(arch) * sizeof(float), "norms of gradients")),
      host_squares_(device.allocate_pinned(num_slices(arch) * sizeof(float))) {
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    home_dtypes_.push_back(gradient_home_dtype(arch, schedule, slice_idx));
  }
  stream.clear(squares_.bytes());
  const PlaceBytes bytes = gradient_place_bytes(arch, schedule);
  if (bytes.large > 0) places_.resize(schedule.gradient_places);
  if (bytes.small > 0) small_.resize(small_gradient_places(schedule));
  for (Place& place : places_) place.memory = device.allocate(bytes.large, "gradients");
  for (Place& place : small_) place.memory = device.allocate(bytes.small, "gradients of small slices");
}

// One that is free, or else the one whose sum left first.
GradientPlaces::Place& GradientPlaces::place_for(std::size_t slice_idx) {
  std::vector<Place>& places =
      round_up(gradient_bytes(arch_, slice_idx), Device::kAlignment) <= kSmallSliceBytes ? small_ : places_;
  const auto unused = [](const Place& place) { return place.key.empty(); };
  auto found =
      std::find_if(places.begin(), places.end(), [&](const Place& place) { return unused(place) && !place.departure; });
  if (found == places.end()) found = std::find_if(places.begin(), places.end(), unused);
  CHECK(found != places.end(), "places for all that are summed together");
  if (found->departure) {
    found->departure->device_free.get();
    found->departure.reset();
  }
  // The oldest first: what leaves goes to the end.
  std::rotate(found, found + 1, places.end());
  return places.back();
}

GradientPlaces::Place& GradientPlaces::find(const std::string& key) {
  for (std::vector<Place>* places : {&places_, &small_}) {
    const auto found =
        std::find_if(places->begin(), places->end(), [&](const Place& place) { return place.key == key; });
    if (found != places->end()) return *found;
  }
  CHECK(false, "a sum that was begun");
}

TensorView GradientPlaces::view(const Place& place, std::size_t slice_idx) const {
  const auto count = static_cast<std::int64_t>(gradient_bytes(arch_, slice_idx) / sizeof(float));
  return {place.memory.bytes(), DType::kF32, {count}};
}

std::span<std::byte> GradientPlaces::begin(std::size_t slice_idx, const std::string& key, Sum sum) {
  const std::uint64_t bytes = gradient_bytes(arch_, slice_idx);
  std::span<std::byte> memory;
  if (homes_[slice_idx].gradients == Home::kDevice) {
    memory = keeper_.bytes(key);
  } else {
    const auto prepared =
        std::find_if(places_.begin(), places_.end(), [&](const Place& place) { return place.key == key; });
    Place& place = prepared != places_.end() ? *prepared : place_for(slice_idx);
    place.key = key;
    memory = place.memory.bytes().first(bytes);
    if (sum == Sum::kGoesOn && !place.arrival) place.arrival = keeper_.bring(key, memory, place.last_use);
    if (place.arrival) stream_.wait(place.arrival->get());
    place.arrival.reset();
  }
  if (sum == Sum::kNew) stream_.clear(memory);
  return memory;
}

std::span<std::byte> GradientPlaces::begin(std::size_t slice_idx, const std::string& key) {
  if (!is_trained(arch_, slice_idx)) return {};
  return begin(slice_idx, key, wave_.is_first ? Sum::kNew : Sum::kGoesOn);
}

void GradientPlaces::prepare(std::size_t slice_idx, const std::string& key) {
  const std::uint64_t bytes = gradient_bytes(arch_, slice_idx);
  if (!prepares_ || wave_.is_first || !is_trained(arch_, slice_idx) || homes_[slice_idx].gradients == Home::kDevice ||
      round_up(bytes, Device::kAlignment) <= kSmallSliceBytes) {
    return;
  }
  Place& place = place_for(slice_idx);
  place.key = key;
  place.arrival = keeper_.bring(key, place.memory.bytes().first(bytes), place.last_use);
}

std::span<std::byte> GradientPlaces::go_on(std::size_t slice_idx, const std::string& key) {
  return begin(slice_idx, key, Sum::kGoesOn);
}

void GradientPlaces::end(std::size_t slice_idx, const std::string& key) {
  if (!is_trained(arch_, slice_idx)) return;
  if (wave_.is_last) finish(slice_idx, key);
  if (!wave_.is_last || home_dtypes_[slice_idx] == DType::kF32) {
    leave(slice_idx, key);
  } else {
    send(key, rounded(find(key), slice_idx).bytes());
  }
}

void GradientPlaces::leave(std::size_t slice_idx, const std::string& key) {
  if (!is_trained(arch_, slice_idx) || homes_[slice_idx].gradients == Home::kDevice) return;
  send(key, find(key).memory.bytes().first(gradient_bytes(arch_, slice_idx)));
}

void GradientPlaces::send(const std::string& key, std::span<std::byte> run) {
  Place& place = find(key);
  place.departure = keeper_.send(key, run, stream_.record());
  place.departure->stored = {};  // the keeper has it; a sum that goes on is not to lie on the drives twice
  place.key.clear();
}

void GradientPlaces::drop(std::size_t slice_idx, const std::string& key) {
  if (homes_[slice_idx].gradients == Home::kDevice) return;
  Place& place = find(key);
  place.key.clear();
  place.last_use = stream_.record();
}

TensorView GradientPlaces::rounded(const Place& place, std::size_t slice_idx) const {
  const std::uint64_t sum_bytes = gradient_bytes(arch_, slice_idx);
  const std::uint64_t count = sum_bytes / sizeof(float);
  return {place.memory.bytes().subspan(round_up(sum_bytes, Device::kAlignment), count * sizeof(BF16)),
          DType::kBF16,
          {static_cast<std::int64_t>(count)}};
}

// The whole sum, rounded; its squares into number `slice_idx` of squares().
void GradientPlaces::finish(std::size_t slice_idx, const std::string& key) {
  const TensorView squares(squares_.bytes().subspan(slice_idx * sizeof(float), sizeof(float)), DType::kF32, {1});
  const auto count = static_cast<std::int64_t>(gradient_bytes(arch_, slice_idx) / sizeof(float));
  const bool at_home = homes_[slice_idx].gradients == Home::kDevice;
  const TensorView sum = at_home ? TensorView(keeper_.bytes(key), DType::kF32, {count}) : view(find(key), slice_idx);
  if (home_dtypes_[slice_idx] == DType::kBF16) {
    const TensorView result = rounded(find(key), slice_idx);
    round_to(stream_, result, sum);
    sum_of_squares(stream_, squares, result);
    return;
  }
  if (rounds_) round_values(stream_, sum);
  sum_of_squares(stream_, squares, sum);
}

void GradientPlaces::wait() {
  for (std::vector<Place>* places : {&places_, &small_}) {
    for (Place& place : *places) {
      CHECK(place.key.empty(), "every sum has ended");
      if (!place.departure) continue;
      place.departure->device_free.get();
      place.departure.reset();
    }
  }
  for (std::size_t slice_idx = 0; slice_idx < homes_.size(); ++slice_idx) {
    if (!is_trained(arch_, slice_idx) || homes_[slice_idx].gradients != Home::kNvme) continue;
    keeper_.version(gradients_key(arch_, slice_idx));
  }
}

std::span<const float> GradientPlaces::squares() {
  const std::size_t count = homes_.size();
  const std::span<std::byte> to = host_squares_.bytes().first(count * sizeof(float));
  stream_.copy(to, squares_.bytes().first(to.size()));
  stream_.synchronize();
  return {reinterpret_cast<const float*>(to.data()), count};
}

}  // namespace sluice
