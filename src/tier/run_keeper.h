// SPDX-License-Identifier: Apache-2.0
// Runs of bytes by key, each at home in device memory, in host memory or on the drives. Whoever computes brings a run
// to the device and sends it back, the same way wherever it lives. Durable runs are part of the store's commits;
// scratch runs are nobody's but this process's. Owns the memory of those at home on the device and the host, taken when
// they are added. bring() and send() are for one thread; what they start goes on in the lanes.
#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "device/device.h"
#include "tier/budget.h"
#include "tier/lane_trace.h"
#include "tier/slice_loader.h"
#include "tier/slice_saver.h"

namespace sluice {

enum class Home : std::uint8_t { kDevice, kHost, kNvme };
std::string_view name(Home home);

enum class Lifetime : std::uint8_t { kDurable, kScratch };

class RunKeeper {
 public:
  struct Parts {
    Device* device = nullptr;
    Budget* host = nullptr;
    SliceStore* store = nullptr;     // null: nothing can be at home on the drives, and nothing is committed
    StagingRing* ring = nullptr;     // null where there is no store
    LaneTrace* trace = nullptr;      // may be null
    DirectReader* direct = nullptr;  // null: what comes from the drives comes through the host
  };
  explicit RunKeeper(const Parts& parts);

  // Memory of those at home on the device or the host starts as zeros. Throws OutOfBudget.
  void add(const std::string& key, std::uint64_t size_bytes, Home home, Lifetime lifetime);

  bool has(const std::string& key) const { return runs_.count(key) > 0; }
  Home home(const std::string& key) const { return find(key).home; }
  std::uint64_t size_bytes(const std::string& key) const { return find(key).size_bytes; }
  // Also for keys that were never added: then false.
  bool is_on_drives(const std::string& key) const;
  // As stored, of durable runs that live in memory: what a commit writes of them.
  std::uint64_t durable_memory_bytes() const;
  // Of scratch runs, what lies on the drives now.
  std::uint64_t scratch_drive_bytes() const;
  // The memory of a run at home on the device or the host.
  std::span<std::byte> bytes(const std::string& key) const;
  // The whole of such a run, from and to host memory. Waits.
  void fill(const std::string& key, std::span<const std::byte> from);
  void fetch(const std::string& key, std::span<std::byte> into);
  Device& device() const { return *parts_.device; }

  // To the device, once `after` has passed there; not for runs at home there. `ready` is waited for on the way.
  Arrival bring(const std::string& key, std::span<std::byte> into, const Event& after,
                const std::shared_future<void>& ready = {});
  // From the device, once `after` has passed; not for runs at home there.
  Departure send(const std::string& key, std::span<const std::byte> from, const Event& after);

  // Of a run at home on the drives: what it is now (null: nothing yet), and how the next version is told.
  SliceRef version(const std::string& key) const;
  SliceWriter begin(const std::string& key);
  void replace(const std::string& key, SliceWriter writer);

  // Stages durable runs that live in memory, so that the next commit has all of them.
  void stage_memory();
  // Fills durable runs that live in memory from the store's last commit.
  void load_memory();

 private:
  struct Run {
    std::uint64_t size_bytes = 0;
    Home home = Home::kHost;
    Lifetime lifetime = Lifetime::kDurable;
    Reservation reservation;
    Buffer memory;
    std::shared_future<SliceRef> stored;  // scratch on the drives
    Event sent;                           // the last copy into host memory
  };

  // From the host, on the stream as it is.
  Event copy_to_device(const std::string& key, const Run& run, std::span<std::byte> into, const Event& after);
  const Run& find(const std::string& key) const;
  Run& find(const std::string& key);

  Parts parts_;
  std::map<std::string, Run> runs_;
  std::unique_ptr<Stream> to_device_;
  std::unique_ptr<Stream> from_device_;
  // A card has no stream that waits for a future: it might hold up whoever is to fulfil it. Null where the CPU plays
  // the device.
  std::unique_ptr<ThreadPool> waiting_;
  std::unique_ptr<SliceLoader> loader_;
  std::unique_ptr<SliceSaver> saver_;
};

}  // namespace sluice
