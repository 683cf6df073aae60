// SPDX-License-Identifier: Apache-2.0
// Whether slices reach the device sooner past the host than through it: measured, then decided.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "device/device.h"
#include "io/io_engine.h"
#include "tier/budget.h"
#include "tier/direct_reader.h"

namespace sluice {

// Both ways of a slice from a drive to the device, checked on the way.
struct DirectSpeed {
  double direct_gb_per_s = 0;
  double staged_gb_per_s = 0;

  bool is_faster() const { return direct_gb_per_s > staged_gb_per_s; }
};

struct DirectProbe {
  FileSystem& files;
  IoEngine& engine;
  Caching caching;
  Device& device;
  Budget& host;
  const Clock& clock;
};

// Uses 256 MiB of the drive and 64 MiB each of device and host memory for about a second. Throws OutOfBudget.
DirectSpeed measure_direct_reads(const DirectProbe& probe, DirectReader& reader, const std::string& directory);

struct DirectChoice {
  std::unique_ptr<DirectReader> reader;  // null: slices go through the host
  std::string why;                       // what was found
};

// Throws InvalidInput where it is asked for and the device or a drive cannot. On: not measured, and also where the
// device's library goes through the host itself.
DirectChoice choose_direct_reads(DirectWish wish, const DirectProbe& probe,
                                 const std::vector<std::string>& directories);

}  // namespace sluice
