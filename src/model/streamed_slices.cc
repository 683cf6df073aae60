// SPDX-License-Identifier: Apache-2.0
#include "model/streamed_slices.h"

#include <algorithm>
#include <exception>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "model/slice_layout.h"

namespace sluice {
namespace {

// A tied head is a norm alone and is used together with the embedding: such slices never leave.
constexpr std::uint64_t kResidentBytes = kMiB;

}  // namespace

StreamedSlices::StreamedSlices(Device& device, const CheckpointSlices& slices, const Architecture& arch, DType dtype,
                               std::uint64_t keep_free_bytes)
    : slices_(slices), arch_(arch), dtype_(dtype), resident_(num_slices(arch)) {
  std::uint64_t largest_bytes = 0;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    const std::uint64_t bytes = slice_layout(arch, slice_idx).size_bytes(dtype);
    if (bytes <= kResidentBytes) {
      resident_[slice_idx] = device.allocate(bytes, slice_name(arch, slice_idx));
      slices.read(slice_idx, dtype, resident_[slice_idx].bytes());
    } else {
      largest_bytes = std::max(largest_bytes, bytes);
    }
  }
  if (largest_bytes == 0) return;
  const std::uint64_t place_bytes = round_up(largest_bytes, Device::kAlignment);
  const std::size_t num_places = device.free_bytes() >= keep_free_bytes + 2 * place_bytes ? 2 : 1;
  places_.reserve(num_places);
  for (std::size_t idx = 0; idx < num_places; ++idx) {
    places_.push_back({.memory = device.allocate(largest_bytes, "a slice on its way")});
  }
  if (num_places > 1) {
    reader_ = std::thread([this] {
      name_this_thread("slice-reader");
      read_ahead();
    });
  }
}

std::uint64_t StreamedSlices::least_bytes(const Architecture& arch, DType dtype, std::uint64_t num_places) {
  std::uint64_t resident_bytes = 0;
  std::uint64_t largest_bytes = 0;
  for (std::size_t slice_idx = 0; slice_idx < num_slices(arch); ++slice_idx) {
    const std::uint64_t bytes = slice_layout(arch, slice_idx).size_bytes(dtype);
    if (bytes <= kResidentBytes) {
      resident_bytes += round_up(bytes, Device::kAlignment);
    } else {
      largest_bytes = std::max(largest_bytes, round_up(bytes, Device::kAlignment));
    }
  }
  return resident_bytes + num_places * largest_bytes;
}

StreamedSlices::~StreamedSlices() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (reader_.joinable()) reader_.join();
}

SliceHold StreamedSlices::hold(std::size_t slice_idx) {
  if (resident_[slice_idx].size_bytes() > 0) return {resident_[slice_idx].bytes(), nullptr};
  std::unique_lock lock(mutex_);
  wanted_.reset();
  // Either the slice is read ahead, or the reader's place is taken for it once the reader is done.
  changed_.wait(lock, [&] {
    return std::none_of(places_.begin(), places_.end(), [](const Place& one) { return one.state == State::kReading; });
  });
  Place* place = find_place(slice_idx);
  if (place == nullptr) {
    place = free_place();
    CHECK(place != nullptr, "one streamed slice is held at a time");
    read_into(*place, slice_idx, lock);
  }
  place->state = State::kHeld;
  wanted_ = after(slice_idx);
  changed_.notify_all();
  return {place->memory.bytes(), [this, place] { let_go(*place); }};
}

void StreamedSlices::let_go(Place& place) {
  const std::scoped_lock lock(mutex_);
  place.state = State::kFree;
  changed_.notify_all();
}

// Reads with the lock open; a place whose read failed is free again.
void StreamedSlices::read_into(Place& place, std::size_t slice_idx, std::unique_lock<std::mutex>& lock) {
  place.state = State::kReading;
  place.slice_idx = slice_idx;
  lock.unlock();
  std::exception_ptr failure;
  try {
    slices_.read(slice_idx, dtype_, place.memory.bytes());
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  place.state = failure ? State::kFree : State::kReady;
  if (!failure) bytes_read_ += slice_layout(arch_, slice_idx).size_bytes(dtype_);
  changed_.notify_all();
  if (failure) std::rethrow_exception(failure);
}

void StreamedSlices::read_ahead() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || (wanted_ && !find_place(*wanted_) && free_place() != nullptr); });
    if (closing_) return;
    const std::size_t slice_idx = *std::exchange(wanted_, std::nullopt);
    try {
      read_into(*free_place(), slice_idx, lock);
    } catch (const std::exception&) {
      // Who asks for the slice reads it again, and is told if that fails too.
    }
  }
}

StreamedSlices::Place* StreamedSlices::find_place(std::size_t slice_idx) {
  for (Place& place : places_) {
    if ((place.state == State::kReading || place.state == State::kReady) && place.slice_idx == slice_idx) return &place;
  }
  return nullptr;
}

// One that holds nothing, or what was read ahead and not asked for.
StreamedSlices::Place* StreamedSlices::free_place() {
  for (const State state : {State::kFree, State::kReady}) {
    for (Place& place : places_) {
      if (place.state == state) return &place;
    }
  }
  return nullptr;
}

std::size_t StreamedSlices::after(std::size_t slice_idx) const {
  std::size_t next = slice_idx;
  do {
    next = (next + 1) % resident_.size();
  } while (resident_[next].size_bytes() > 0 && next != slice_idx);
  return next;
}

std::uint64_t StreamedSlices::bytes_read() const {
  const std::scoped_lock lock(mutex_);
  return bytes_read_;
}

}  // namespace sluice
