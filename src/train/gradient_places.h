// SPDX-License-Identifier: Apache-2.0
// Gradients on the device while they are summed: f32, laid out as what is trained of their slices. A sum that an
// earlier wave began is brought back and goes on, so that its order never depends on the wave; what is done is sent
// home, and its squares are summed on the way. Small slices have places of their own. For one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "model/architecture.h"
#include "plan/schedule.h"
#include "tier/run_keeper.h"

namespace sluice {

class GradientPlaces {
 public:
  GradientPlaces(Device& device, Stream& stream, const Architecture& arch, RunKeeper& keeper, const Schedule& schedule);

  enum class Sum : std::uint8_t { kNew, kGoesOn };
  // Memory for a slice's sum: zeros, or what it is so far. Throws what sending an earlier one home has thrown.
  std::span<std::byte> begin(std::size_t slice_idx, const std::string& key, Sum sum);
  // The sum is whole for now: it goes home.
  void end(std::size_t slice_idx, const std::string& key);
  // Without sending it anywhere.
  void drop(std::size_t slice_idx, const std::string& key);
  // The sum of squares of what was summed last, into number `slice_idx` of norms().
  void measure(std::size_t slice_idx, const std::string& key);

  // Waits until all are home. Throws what went wrong on the way.
  void wait();
  std::span<const float> squares();  // one a slice, 0 where nothing is trained; waits for the stream

 private:
  struct Place {
    Buffer memory;
    std::string key;  // whose sum is here; empty: none
    std::optional<Departure> departure;
  };

  Place& place_for(std::size_t slice_idx);
  Place& find(const std::string& key);
  TensorView view(const Place& place, std::size_t slice_idx) const;

  Stream& stream_;
  const Architecture& arch_;
  RunKeeper& keeper_;
  std::vector<SliceHomes> homes_;
  std::vector<Place> places_;  // for large slices, one size
  std::vector<Place> small_;   // for small ones, one size
  Buffer squares_;
  std::vector<float> host_squares_;
};

}  // namespace sluice
