// SPDX-License-Identifier: Apache-2.0
#include "bench/tier_rig.h"

#include <unistd.h>

#include <fmt/core.h>

#include "base/units.h"
#include "io/drive_speed.h"
#include "io/stripe_pattern.h"
#include "tier/store_files.h"

namespace sluice {
namespace {

constexpr std::uint64_t kProbeBytes = 256 * kMiB;

std::unique_ptr<SliceStore> open_store(const TierRigOptions& options, const StoreHome& home, const Clock& clock,
                                       ScratchStore& scratch) {
  const bool kept = options.store == TierRigOptions::Store::kKept;
  if (kept && SliceStore::holds_store(home)) return SliceStore::open(home);
  std::unique_ptr<SliceStore> store = SliceStore::create(home, measured_shape(home, clock));
  if (!kept) scratch.remove_at_end(options.directories);
  return store;
}

}  // namespace

StoreShape measured_shape(const StoreHome& home, const Clock& clock) {
  StoreShape shape;
  if (home.directories.size() < 2) return shape;
  std::vector<double> speeds;
  for (const std::string& directory : home.directories) {
    home.files.require_directory(directory, OpenMode::kReadWrite);
    speeds.push_back(
        measure_drive({home.files, home.engine, home.caching, clock}, directory, kProbeBytes).read_gb_per_s);
  }
  shape.weights = weights_from_speeds(speeds);
  return shape;
}

TierRig::TierRig(const TierRigOptions& options)
    : choice(choose_engine(options.directories, options.engine)),
      host("host", options.host_bytes),
      device_budget("device", options.device_bytes),
      device(options.device_bytes),
      store(open_store(options, {files, *choice.engine, choice.caching, options.directories}, clock, scratch)),
      ring(device, *choice.engine, host, staging_shape(options.host_bytes, store->chunk_bytes())),
      tier(*store, ring, device, device_budget, nullptr),
      compute(device.make_stream("compute")) {}

ScratchStore::~ScratchStore() {
  for (const std::string& directory : directories_) {
    for (const auto* names : {&store_file_names(), &leftover_file_names()}) {
      for (const std::string& name : *names) ::unlink(fmt::format("{}/{}", directory, name).c_str());
    }
  }
}

}  // namespace sluice
