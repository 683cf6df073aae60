// SPDX-License-Identifier: Apache-2.0
// Slices of a model that is larger than its budget, read from the checkpoint each time they are needed. While one is
// used, a thread reads the next, if there is memory for two; small slices stay. For one user at a time, who goes over
// the slices in order, again and again.
//
//   user     use 0   use 1   use 2          one place: read, use, read, use
//   reader   read 1  read 2  read 3
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "model/slice_source.h"

namespace sluice {

class StreamedSlices : public SliceSource {
 public:
  // Takes places for two of the largest slices from the device, or for one where there is no room for two; leaves
  // `keep_free_bytes`. Throws OutOfBudget where there is no room for one.
  StreamedSlices(Device& device, const CheckpointSlices& slices, const Architecture& arch, DType dtype,
                 std::uint64_t keep_free_bytes);
  ~StreamedSlices() override;
  StreamedSlices(const StreamedSlices&) = delete;
  StreamedSlices& operator=(const StreamedSlices&) = delete;

  SliceHold hold(std::size_t slice_idx) override;
  DType dtype() const override { return dtype_; }

  // What the constructor can do with: for one place, or for two.
  static std::uint64_t least_bytes(const Architecture& arch, DType dtype, std::uint64_t num_places = 1);
  std::size_t num_places() const { return places_.size(); }
  std::uint64_t bytes_read() const;

 private:
  enum class State { kFree, kReading, kReady, kHeld };
  struct Place {
    Buffer memory;
    State state = State::kFree;
    std::size_t slice_idx = 0;
  };

  void read_ahead();
  void read_into(Place& place, std::size_t slice_idx, std::unique_lock<std::mutex>& lock);
  void let_go(Place& place);
  Place* find_place(std::size_t slice_idx);
  Place* free_place();
  std::size_t after(std::size_t slice_idx) const;

  const CheckpointSlices& slices_;
  const Architecture& arch_;
  DType dtype_;
  std::vector<Buffer> resident_;  // empty buffers for those that are streamed

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Place> places_;
  std::optional<std::size_t> wanted_;  // what the reader should read next
  std::uint64_t bytes_read_ = 0;
  bool closing_ = false;
  std::thread reader_;
};

}  // namespace sluice
