// SPDX-License-Identifier: Apache-2.0
// A few pinned buffers that every lane between the drives and the device shares: a direct read lands in the very
// memory that the device copies from. Taken from the host budget once, registered with the I/O engine once. Slots are
// handed out oldest first, each after the copy that last used it has passed. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>

#include "device/device.h"
#include "io/io_engine.h"
#include "tier/budget.h"

namespace sluice {

class StagingRing {
 public:
  struct Shape {
    std::uint64_t slot_bytes = 4 * 1024 * 1024;
    std::uint64_t num_slots = 8;
  };

  StagingRing(Device& device, IoEngine& engine, Budget& host, const Shape& shape);
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  // Gives its memory back when it dies: at once, or after the event that release_after() was given.
  class Slot {
   public:
    Slot(Slot&& other) noexcept;
    Slot& operator=(Slot&&) = delete;
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot();

    std::span<std::byte> bytes() const { return memory_; }
    void release_after(const Event& event) { last_use_ = event; }

   private:
    friend class StagingRing;
    Slot(StagingRing& ring, std::span<std::byte> memory) : ring_(&ring), memory_(memory) {}

    StagingRing* ring_;
    std::span<std::byte> memory_;
    Event last_use_;
  };

  Slot acquire();  // blocks until one is free
  std::uint64_t slot_bytes() const { return shape_.slot_bytes; }
  std::uint64_t num_slots() const { return shape_.num_slots; }

 private:
  struct Idle {
    std::span<std::byte> memory;
    Event last_use;
  };

  Shape shape_;
  Reservation reservation_;
  Buffer memory_;
  Registration registration_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::deque<Idle> idle_;
};

// A ring within `staging_bytes` for these chunks: slots large enough to keep a drive busy, as many as still bring
// speed. Throws OutOfBudget where not even two chunks fit.
StagingRing::Shape staging_shape(std::uint64_t staging_bytes, std::uint64_t chunk_bytes);

}  // namespace sluice
