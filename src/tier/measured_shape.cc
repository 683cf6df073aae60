// SPDX-License-Identifier: Apache-2.0
#include "tier/measured_shape.h"

#include <algorithm>
#include <string>
#include <vector>

#include "io/drive_speed.h"
#include "io/stripe_pattern.h"

namespace sluice {

StoreShape measured_shape(const StoreHome& home, const Clock& clock, std::uint64_t probe_bytes) {
  StoreShape shape;
  if (home.directories.size() < 2) return shape;
  std::vector<double> speeds;
  for (const std::string& directory : home.directories) {
    home.files.require_directory(directory, OpenMode::kReadWrite);
    const DriveSpeed speed = measure_drive({home.files, home.engine, home.caching, clock}, directory, probe_bytes);
    // What is written is read at least as often; the slower way is the one that holds the others up.
    speeds.push_back(std::min(speed.read_gb_per_s, speed.write_gb_per_s));
  }
  shape.weights = weights_from_speeds(speeds);
  return shape;
}

}  // namespace sluice
