// SPDX-License-Identifier: Apache-2.0
// A store, a device and the lanes between them, as the benchmarks of this folder set them up.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "device/cpu/cpu_device.h"
#include "io/choose_engine.h"
#include "io/posix/posix_file.h"
#include "tier/budget.h"
#include "tier/device_tier.h"
#include "tier/slice_store.h"
#include "tier/staging_ring.h"

namespace sluice {

// A slice is an eighth of the device: one in use, one just used, the others on their way.
inline constexpr std::uint64_t kSlicesOnDevice = 8;

struct TierRigOptions {
  std::vector<std::string> directories;
  std::uint64_t host_bytes = 0;
  std::uint64_t device_bytes = 0;
  EngineWish engine = EngineWish::kAuto;
  // kScratch: a new one, removed at the end. kKept: the one that is there, or a new one; it stays.
  enum class Store { kScratch, kKept } store = Store::kScratch;
};

// Removes the store that a benchmark made, however the benchmark ends.
class ScratchStore {
 public:
  ScratchStore() = default;
  ~ScratchStore();
  ScratchStore(const ScratchStore&) = delete;
  ScratchStore& operator=(const ScratchStore&) = delete;

  void remove_at_end(std::vector<std::string> directories) { directories_ = std::move(directories); }

 private:
  std::vector<std::string> directories_;
};

class TierRig {
 public:
  explicit TierRig(const TierRigOptions& options);

  EngineChoice choice;
  PosixFileSystem files;
  SteadyClock clock;
  Budget host;
  Budget device_budget;
  CpuDevice device;
  ScratchStore scratch;
  std::unique_ptr<SliceStore> store;
  StagingRing ring;
  DeviceTier tier;
  std::unique_ptr<Stream> compute;
};

}  // namespace sluice
