// SPDX-License-Identifier: Apache-2.0
// Which slices are in device memory. A Lease keeps one there; when its last lease is gone and the stream that used it
// has passed, the slice may be evicted: clean ones first, least recently used first, dirty ones after they were saved.
//
//              acquire()            arrival               mark_dirty()
//     absent ------------> loading ---------> clean -------------------> dirty
//        ^                                      |                          |
//        +---------- evicted (no leases, last use passed) ----+--- saved --+
//
// Nothing is ever released by remembering to. Thread-safe; acquire() may wait for streams and saves, never for leases,
// and holds up other threads' calls meanwhile: leases are not dropped from inside a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "tier/budget.h"
#include "tier/slice_loader.h"
#include "tier/slice_saver.h"
#include "tier/slice_store.h"

namespace sluice {

class DeviceTier;

// Residency of one slice. Move-only. The slice may still be arriving: wait() or wait_on() before its bytes are used.
class [[nodiscard]] Lease {
 public:
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { release(); }

  const std::string& key() const;
  std::span<std::byte> bytes() const;
  void wait() const;                   // until it is here; rethrows what went wrong on the way
  void wait_on(Stream& stream) const;  // what follows in the stream finds it here; blocks until it is on its way
  // The lease's memory is in use until `stream` has passed the point of the lease's release.
  void use_on(Stream& stream) { used_on_ = &stream; }
  void mark_dirty();

 private:
  friend class DeviceTier;
  struct Resident;
  Lease(DeviceTier& tier, Resident& resident) : tier_(&tier), resident_(&resident) {}
  void release();

  DeviceTier* tier_;
  Resident* resident_;
  Stream* used_on_ = nullptr;
};

class DeviceTier {
 public:
  // `trace` may be null.
  DeviceTier(SliceStore& store, StagingRing& ring, Device& device, Budget& budget, LaneTrace* trace);
  ~DeviceTier();
  DeviceTier(const DeviceTier&) = delete;
  DeviceTier& operator=(const DeviceTier&) = delete;

  // Starts loading the slice if it is absent, evicting others for it. Throws OutOfBudget where leases hold the memory.
  Lease acquire(const std::string& key);
  // The same if it can be had without waiting for a stream or a save, else nothing: for loading ahead.
  std::optional<Lease> try_acquire(const std::string& key);
  // A slice that need not exist yet: its bytes are undefined, it is dirty.
  Lease create(const std::string& key, std::uint64_t size_bytes);

  // Saves every dirty slice; they are staged in the store on return, and clean.
  void save_dirty();

  bool resident(const std::string& key) const;

 private:
  friend class Lease;
  enum class Patience { kWait, kNone };

  std::optional<Lease> lease(const std::string& key, Patience patience);
  Lease::Resident* make_room_and_place(const std::string& key, std::uint64_t size_bytes, Patience patience);
  bool evict_one(Patience patience);
  void drop(Lease::Resident& resident);
  void await_save(const std::string& key);
  void release(Lease::Resident& resident, Stream* used_on);

  SliceStore& store_;
  Device& device_;
  Budget& budget_;
  SliceLoader loader_;
  SliceSaver saver_;
  mutable std::mutex mutex_;
  std::list<Lease::Resident> residents_;  // least recently used first
  std::map<std::string, std::list<Lease::Resident>::iterator> by_key_;
  std::map<std::string, std::shared_future<SliceRef>> saving_;  // evicted while dirty, on their way to the store
};

}  // namespace sluice
