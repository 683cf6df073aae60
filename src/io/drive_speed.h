// SPDX-License-Identifier: Apache-2.0
// How fast a directory's drive is, by writing and reading a scratch file there.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "io/file.h"
#include "io/io_engine.h"

namespace sluice {

struct DriveSpeed {
  double read_gb_per_s = 0;
  double write_gb_per_s = 0;
  double mixed_gb_per_s = 0;  // of both together, while it reads and writes
};

struct DriveProbe {
  FileSystem& files;
  IoEngine& engine;
  Caching caching = Caching::kDirect;
  const Clock& clock;
};

// Writes and reads `probe_bytes`, or half of the free space if that is less, for about a second, then removes the file.
// Throws IoError with a remedy if less than 64 MiB are free.
DriveSpeed measure_drive(const DriveProbe& probe, const std::string& directory, std::uint64_t probe_bytes);

}  // namespace sluice
