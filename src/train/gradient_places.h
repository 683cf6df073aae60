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

  struct Wave {
    bool is_first = true;  // of the step
    bool is_last = true;
  };
  // What is summed from here on is this wave's.
  void begin_wave(Wave wave) { wave_ = wave; }
  // Memory for a slice's sum: zeros in the first wave, else what it is so far; empty where nothing of it is trained.
  // Throws what sending an earlier one home has thrown.
  std::span<std::byte> begin(std::size_t slice_idx, const std::string& key);
  // Begins to bring the sum of a block that begin() comes to after those under way, where there is a place to spare.
  void prepare(std::size_t slice_idx, const std::string& key);
  // The wave has added its own: it goes home, in the last wave with its squares summed.
  void end(std::size_t slice_idx, const std::string& key);
  // Goes home, though this wave has more to add.
  void leave(std::size_t slice_idx, const std::string& key);
  // One that this wave has left.
  std::span<std::byte> go_on(std::size_t slice_idx, const std::string& key);
  // Without sending it anywhere.
  void drop(std::size_t slice_idx, const std::string& key);

  // Waits until all are home. Throws what went wrong on the way.
  void wait();
  std::span<const float> squares();  // one a slice, 0 where nothing is trained; waits for the stream

 private:
  struct Place {
    Buffer memory;
    std::string key;  // whose sum is here; empty: none
    std::optional<Departure> departure;
    std::optional<Arrival> arrival;  // of what was prepared
    Event last_use;                  // of what was dropped
  };

  enum class Sum : std::uint8_t { kNew, kGoesOn };
  std::span<std::byte> begin(std::size_t slice_idx, const std::string& key, Sum sum);
  void finish(std::size_t slice_idx, const std::string& key);
  void send(const std::string& key, std::span<std::byte> run);
  TensorView rounded(const Place& place, std::size_t slice_idx) const;
  Place& place_for(std::size_t slice_idx);
  Place& find(const std::string& key);
  TensorView view(const Place& place, std::size_t slice_idx) const;

  Stream& stream_;
  const Architecture& arch_;
  RunKeeper& keeper_;
  std::vector<SliceHomes> homes_;
  std::vector<DType> home_dtypes_;  // one a slice
  bool rounds_;
  bool prepares_;
  std::vector<Place> places_;  // for large slices, one size
  std::vector<Place> small_;   // for small ones, one size
  Wave wave_;
  Buffer squares_;
  Buffer host_squares_;  // pinned, so that whoever waits for them holds nobody else up
};

}  // namespace sluice
