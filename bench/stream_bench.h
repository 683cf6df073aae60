// SPDX-License-Identifier: Apache-2.0
// How fast slices larger than host and device memory together stream through leases to the device, beside a raw read
// of the same bytes in the same run. A first pass, which is not timed, compares on the device every byte that arrives
// with what was written; the timed ones verify every chunk's checksum on the way, as all loads do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "io/choose_engine.h"

namespace sluice {

struct StreamBenchOptions {
  std::vector<std::string> directories;
  std::uint64_t size_bytes = 0;
  std::uint64_t host_bytes = 0;
  std::uint64_t device_bytes = 0;
  int num_rounds = 5;
  EngineWish engine = EngineWish::kAuto;
};

struct StreamBenchResult {
  std::string engine;
  double gb_per_s = 0;
  double raw_read_gb_per_s = 0;
  double write_gb_per_s = 0;  // of filling the store through the lanes, commit included
  std::uint64_t size_bytes = 0;
  std::uint64_t num_slices = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t host_peak_bytes = 0;
  std::uint64_t device_peak_bytes = 0;
};

// The directories hold no store; the one that is made there is removed. Throws FormatError where a slice arrives other
// than it was written, Cancelled when interrupted.
StreamBenchResult run_stream_bench(const StreamBenchOptions& options, const ProgressSink& progress);

}  // namespace sluice
