// SPDX-License-Identifier: Apache-2.0
#include "bench/tier_rig.h"

#include <unistd.h>

#include "base/units.h"
#include "io/drive_speed.h"
#include "io/stripe_pattern.h"

namespace sluice {
namespace {

constexpr std::uint64_t kProbeBytes = 256 * kMiB;

std::unique_ptr<SliceStore> open_store(const TierRigOptions& options, const StoreHome& home, const Clock& clock) {
  if (options.store == TierRigOptions::Store::kFoundOrNew && SliceStore::holds_store(home)) {
    return SliceStore::open(home);
  }
  return SliceStore::create(home, measured_shape(home, clock));
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
      store(open_store(options, {files, *choice.engine, choice.caching, options.directories}, clock)),
      ring(device, *choice.engine, host, staging_shape(options.host_bytes, store->chunk_bytes())),
      tier(*store, ring, device, device_budget, nullptr),
      compute(device.make_stream("compute")) {}

void remove_store_files(const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    for (const char* name : {"/slices.dat", "/slices.dat.new", "/journal.a", "/journal.b", "/journal.a.new",
                             "/journal.b.new", "/sluice.lock"}) {
      ::unlink((directory + name).c_str());
    }
  }
}

}  // namespace sluice
