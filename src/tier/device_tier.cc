// SPDX-License-Identifier: Apache-2.0
#include "tier/device_tier.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"

namespace sluice {

namespace {

// Passed, and nothing before it failed. A use that failed is kept: a slice it left half-computed must not be saved.
bool ended_well(const Event& use) {
  if (!use.passed()) return false;
  try {
    use.wait();
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

struct Lease::Resident {
  std::string key;
  Reservation reservation;
  Buffer buffer;
  Arrival arrival;  // not valid: nothing to wait for
  std::uint64_t num_leases = 0;
  std::vector<Event> uses;  // one for each stream that may still be using it
  bool dirty = false;

  bool arrived_and_unused() const {
    const bool arrived = !arrival.valid() || (arrival.wait_for(std::chrono::seconds(0)) == std::future_status::ready &&
                                              has_arrived(arrival));
    return arrived && std::all_of(uses.begin(), uses.end(), [](const Event& use) { return use.passed(); });
  }

  bool load_failed() const {
    if (!arrival.valid() || arrival.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    try {
      arrival.get();
      return false;
    } catch (...) {
      return true;
    }
  }

  // A load that failed is over too: its error went to whoever waited for the lease.
  static bool has_arrived(const Arrival& arrival) {
    try {
      return arrival.get().passed();
    } catch (...) {
      return true;
    }
  }

  void wait_until_unused() const {
    try {
      if (arrival.valid()) arrival.get().wait();
    } catch (...) {
      // Likewise.
    }
    for (const Event& use : uses) {
      try {
        use.wait();
      } catch (...) {
        // Whoever waits for that stream is told.
      }
    }
  }
};

Lease::Lease(Lease&& other) noexcept
    : tier_(std::exchange(other.tier_, nullptr)),
      resident_(std::exchange(other.resident_, nullptr)),
      used_on_(std::exchange(other.used_on_, nullptr)) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    release();
    tier_ = std::exchange(other.tier_, nullptr);
    resident_ = std::exchange(other.resident_, nullptr);
    used_on_ = std::exchange(other.used_on_, nullptr);
  }
  return *this;
}

const std::string& Lease::key() const { return resident_->key; }

std::span<std::byte> Lease::bytes() const { return resident_->buffer.bytes(); }

void Lease::wait() const {
  if (resident_->arrival.valid()) resident_->arrival.get().wait();
}

void Lease::wait_on(Stream& stream) const {
  if (resident_->arrival.valid()) stream.wait(resident_->arrival.get());
}

void Lease::mark_dirty() {
  const std::scoped_lock lock(tier_->mutex_);
  resident_->dirty = true;
}

void Lease::release() {
  if (tier_ != nullptr) tier_->release(*resident_, used_on_);
  tier_ = nullptr;
}

DeviceTier::DeviceTier(SliceStore& store, StagingRing& ring, Device& device, Budget& budget, LaneTrace* trace)
    : store_(store),
      device_(device),
      budget_(budget),
      loader_(store, ring, device, trace),
      saver_(store, ring, device, trace) {
  if (trace != nullptr) store.trace_to(trace);
}

DeviceTier::~DeviceTier() {
  for (const Lease::Resident& resident : residents_) {
    CHECK(resident.num_leases == 0, "leases die before their tier");
    resident.wait_until_unused();
  }
  for (const auto& [key, staged] : saving_) staged.wait();
}

Lease DeviceTier::acquire(const std::string& key) { return std::move(*lease(key, Patience::kWait)); }

std::optional<Lease> DeviceTier::try_acquire(const std::string& key) { return lease(key, Patience::kNone); }

std::optional<Lease> DeviceTier::lease(const std::string& key, Patience patience) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    residents_.splice(residents_.end(), residents_, found->second);
    ++found->second->num_leases;
    return Lease(*this, *found->second);
  }
  if (const auto saving = saving_.find(key); saving != saving_.end()) {
    const bool staged = saving->second.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    if (!staged && patience == Patience::kNone) return std::nullopt;
    await_save(key);
  }
  const SliceRef version = store_.find(key);
  if (!version) throw InvalidInput(fmt::format("the store has no slice '{}'", key));
  Lease::Resident* const resident = make_room_and_place(key, version->size_bytes(), patience);
  if (resident == nullptr) return std::nullopt;
  resident->arrival = loader_.load(version, resident->buffer.bytes());
  resident->num_leases = 1;
  return Lease(*this, *resident);
}

Lease DeviceTier::create(const std::string& key, std::uint64_t size_bytes) {
  const std::scoped_lock lock(mutex_);
  CHECK(!by_key_.contains(key), "a slice is created once");
  await_save(key);
  Lease::Resident* const resident = make_room_and_place(key, size_bytes, Patience::kWait);
  resident->dirty = true;
  resident->num_leases = 1;
  return {*this, *resident};
}

void DeviceTier::await_save(const std::string& key) {
  const auto saving = saving_.find(key);
  if (saving == saving_.end()) return;
  saving->second.get();  // a failure stays: the slice is not what the store has
  saving_.erase(saving);
}

Lease::Resident* DeviceTier::make_room_and_place(const std::string& key, std::uint64_t size_bytes, Patience patience) {
  while (true) {
    try {
      Lease::Resident resident;
      resident.key = key;
      resident.reservation = budget_.reserve(round_up(size_bytes, Device::kAlignment), fmt::format("slice '{}'", key));
      resident.buffer = device_.allocate(size_bytes, fmt::format("slice '{}'", key));
      residents_.push_back(std::move(resident));
      const auto placed = std::prev(residents_.end());
      by_key_[key] = placed;
      return &*placed;
    } catch (const OutOfBudget&) {
      if (evict_one(patience)) continue;
      if (patience == Patience::kNone) return nullptr;
      throw;
    }
  }
}

bool DeviceTier::evict_one(Patience patience) {
  Lease::Resident* clean = nullptr;
  Lease::Resident* dirty = nullptr;
  for (Lease::Resident& resident : residents_) {
    if (resident.num_leases > 0) continue;
    if (resident.dirty) {
      if (dirty == nullptr) dirty = &resident;
    } else if (resident.arrived_and_unused()) {
      drop(resident);
      return true;
    } else if (clean == nullptr) {
      clean = &resident;
    }
  }
  if (patience == Patience::kNone) return false;
  if (clean != nullptr) {
    clean->wait_until_unused();
    drop(*clean);
    return true;
  }
  if (dirty == nullptr) return false;
  const Departure departure = saver_.save(dirty->key, dirty->buffer.bytes(), dirty->uses);
  departure.device_free.get();  // where it fails, the slice stays here, dirty
  saving_[dirty->key] = departure.stored;
  drop(*dirty);
  return true;
}

void DeviceTier::drop(Lease::Resident& resident) {
  const auto entry = by_key_.find(resident.key);
  const auto place = entry->second;
  by_key_.erase(entry);
  residents_.erase(place);
}

void DeviceTier::release(Lease::Resident& resident, Stream* used_on) {
  const std::scoped_lock lock(mutex_);
  if (used_on != nullptr) {
    std::erase_if(resident.uses, ended_well);
    resident.uses.push_back(used_on->record());
  }
  --resident.num_leases;
  // What never arrived is forgotten, so that the next lease tries again.
  if (resident.num_leases == 0 && resident.load_failed()) drop(resident);
}

void DeviceTier::save_dirty() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::pair<Lease::Resident*, Departure>> departures;
  std::exception_ptr failure;
  for (Lease::Resident& resident : residents_) {
    if (!resident.dirty) continue;
    CHECK(resident.num_leases == 0, "a slice is saved after its leases are gone");
    departures.emplace_back(&resident, saver_.save(resident.key, resident.buffer.bytes(), resident.uses));
  }
  // Every departure is waited for, whatever became of the others; what failed stays dirty.
  for (auto& [resident, departure] : departures) {
    try {
      departure.device_free.get();
      departure.stored.get();
      resident->dirty = false;
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  while (!saving_.empty()) await_save(std::string(saving_.begin()->first));
}

bool DeviceTier::resident(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  return by_key_.contains(key);
}

}  // namespace sluice
